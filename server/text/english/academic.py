"""Abbreviations of subjects, degrees and schools: Dept. of Chem. Eng., Poli. Sci., U. of Chicago, No. 4 Ohio St."""

from __future__ import annotations

import re

from server.text.english.rules import Rule, alternatives, first_words, rule
from server.text.patterns import lazy

_SUBJECTS: dict[str, str] = {
    "Anthro": "Anthropology",
    "Arch": "Architecture",
    "Astron": "Astronomy",
    "Biochem": "Biochemistry",
    "Biol": "Biology",
    "Bio": "Biology",
    "Bus": "Business",
    "Chem": "Chemistry",
    "Civ": "Civil",
    "Comm": "Communications",
    "Comp": "Computer",
    "Econ": "Economics",
    "Ed": "Education",
    "Elec": "Electrical",
    "Eng": "English",
    "Engr": "Engineering",
    "Fin": "Finance",
    "Geog": "Geography",
    "Geol": "Geology",
    "Hist": "History",
    "Ling": "Linguistics",
    "Lit": "Literature",
    "Mech": "Mechanical",
    "Med": "Medicine",
    "Mktg": "Marketing",
    "Phil": "Philosophy",
    "Phys": "Physics",
    "Poli": "Political",
    "Psych": "Psychology",
    "Sci": "Science",
    "Soc": "Sociology",
    "Stat": "Statistics",
}
SHORT_SUBJECTS = frozenset(name.lower() for name in _SUBJECTS) - frozenset(
    "arch bio bus comm ed fin lit med stat".split()
)
"""Subjects whose abbreviation is no word, in lower case."""
_ENGINEERS = {"Chem": "Chemical", "Bio": "Biological", "Comp": "Computer", "Civ": "Civil", "Elec": "Electrical"}
_ENGINEERS |= {"Mech": "Mechanical", "Ind": "Industrial", "Env": "Environmental", "Aero": "Aerospace"}
_SUBJECT = alternatives(_SUBJECTS)
_DEGREES = r"B\.?[AS]|M\.?[AS]|Ph\.?D|Ed\.?D|[BM]\.?Eng|[BM]\.?Sc"
_OF = r"(?:Dept\.?|[Dd]epartment|School|College|Prof\.?|[Pp]rofessor|Doctor|Bachelor|Master|Inst\.?)[ ]of"
_FIELDS = rf"""
    (?P<before> \b{_OF}[ ] | (?<!\w)(?:(?:{_DEGREES})\.?|[Dd]egrees?|[Mm]ajor(?:ed|ing|s)?)[ ]in[ ] )
    (?P<fields>
        (?:[A-Z][a-z]+\.?[ ])? (?:{_SUBJECT}|Ind|Env|Aero)\b\.? (?:[ ](?:&|and)?[ ]?(?:{_SUBJECT})\b\.?)? )
"""
"""The subjects of a department or a degree: Dept. of Chem. Eng."""
_PAIR = r"(?<![\w.])(?P<first>Poli|Comp|Soc|Eng|Bio)\.[ ](?P<last>Sci|Lit|Eng)\b\.?"
"""Poli. Sci."""
_WORD = lazy(r"(?P<short>[A-Z][a-z]+)\b\.?")
_UNIVERSITY = r"(?<![\w.])U\.?[ ]of[ ](?=[A-Z](?:(?P<name>[a-z]{2})|(?!\w)))"
_COLLEGE = r"(?<=[a-z][ ])Coll\.(?=[\s,;)]|$)"
_STATES = (
    "Alabama|Appalachian|Arizona|Arkansas|Ball|Boise|Colorado|Delaware|Florida|Fresno|Georgia|Idaho|Illinois|Indiana|Iowa"
    "|Kansas|Kent|Michigan|Mississippi|Missouri|Montana|Murray|Ohio|Oklahoma|Oregon|Penn|Portland|Tennessee|Texas|Utah|Washington"
    r"|Weber|Wichita|San[ ](?:Diego|Jose)|N(?:orth|\.)?[ ](?:Carolina|Dakota)|S(?:outh|\.)?[ ]Dakota|N\.?C\.?"
)
_OF_A_TEAM = (
    "beats?|tops?|topped|defeats?|defeated|vs|over|wins?|won|loses?|lost|leads?|led|fans?|football|basketball|coach"
    r"|quarterback|game|grad|students?|alum\w*|upsets?|falls?|fell|rall\w+"
)
_STATE_SCHOOL = rf"""
    (?<![\w.]) (?P<rank>[Nn]o\.[ ]\d{{1,2}}[ ]|\#\d{{1,2}}[ ])? (?P<name>{_STATES})[ ]St\b\.?
    (?P<after>(?= [ ]\d{{1,3}}(?:[,;]|\s*$|[ ]\() | [ ](?:{_OF_A_TEAM})\b | [ ]\(\d{{1,2}}-\d{{1,2}}\) ))?
"""
"""Ohio St. 42, Michigan 27."""


def _fields(match: re.Match[str]) -> str:
    names = match["fields"]
    engineers = re.search(r"\bEngr?\b", names)
    found = 0

    def subject(part: re.Match[str]) -> str:
        nonlocal found
        short, place = part["short"], found
        found += 1
        if engineers and part.start() < engineers.start() and short in _ENGINEERS:
            return _ENGINEERS[short]
        if short == "Eng" and place:
            return "Engineering"
        return _SUBJECTS.get(short, part[0])

    stop = "." if names.endswith(".") and not match.string[match.end() :].strip() else ""
    return match["before"] + _WORD.sub(subject, names) + stop


def _pair(match: re.Match[str]) -> str:
    first = _ENGINEERS.get(match["first"]) if match["last"] == "Eng" else None
    last = "Engineering" if match["last"] == "Eng" else _SUBJECTS[match["last"]]
    if match["first"] == "Soc":
        first = "Social"
    return f"{first or _SUBJECTS[match['first']]} {last}"


def _state_school(match: re.Match[str]) -> str:
    if match["rank"] is None and match["after"] is None:
        return match[0]
    return f"{match['rank'] or ''}{match['name']} State"


RULES: tuple[Rule, ...] = (
    rule(_STATE_SCHOOL, _state_school, ("st",)),
    rule(r"(?<![\w.])Phys\.[ ]Ed\b\.?", "Physical Education", ("phys",)),
    rule(_PAIR, _pair, ("sci", "lit", "eng")),
    rule(_FIELDS, _fields, (*first_words(_SUBJECTS), "ind", "env", "aero")),
    rule(_UNIVERSITY, lambda match: "University of " if match["name"] else "U of ", ("U of ", "U. of ")),
    rule(_COLLEGE, "College", ("coll",)),
    rule(r"(?<=D[ ])cand\b\.?|(?<=D\.[ ])cand\b\.?", "candidate", ("cand",)),
)
"""Run before titles and abbreviations: "Ohio St." is no street, and the "Ed." of a department no edition."""
