"""Citations as words: Section 230(c)(1), ibid., ed. note, b. 1901, doi:10.1000/xyz123, arXiv:1706.03762v5, RFC 2616."""

from __future__ import annotations

import re

from server.text.english import letters, numbers, roman, web
from server.text.english.rules import Rule, rule

_LAW = (
    r"\b(?:[Ss]ec|[Aa]rt|[Pp]ara|[Rr]eg|[Cc]l)\.[ ]?|§[ ]?|"
    r"\b(?:(?:[Ss]ub)?[Ss]ections?|[Aa]rticle|[Rr]ule|[Rr]egulation|[Cc]lause|[Pp]aragraph|[Ss]chedule)[ ]"
)
_SUBSECTION = rf"""
    (?P<label>{_LAW})? (?<![\w.,])(?P<number>\d{{1,4}}[A-Z]?)
    (?P<parts> (?(label) (?:\((?:[a-z]|\d{{1,2}}|[ivx]{{2,4}}|(?P<twice>[a-z])(?P=twice))\)){{1,6}}
      | (?<=\d\d)(?:\([a-z]\)\(\d{{1,2}}\)){{1,3}} ) ) (?!\w)
"""
_CITED_BEFORE = r"\b(?P<word>[Ii]bid|[Oo]p|[Ll]oc)\.(?P<cited>[ ]cit)?\.?(?=[,;)]|[ ]?cit\.)"
_CATALOGS = r"(?<=\bK)\.[ ](?=\d{1,3}[a-z]?(?:[.,;:)]|[ ](?:in|by|is|was)\b|\s*$))"
"""Mozart's works: K. 545."""
_BORN = r"""
    (?P<event>[bdmr]) (?: (?<=\(.) | (?<=[,;][ ].) | (?<=\d\d\d\d[ ].) | (?<=^.) ) \.[ ]
    (?=(?:ca?\.[ ]?)?(?:'\d\d\b|\d{1,2}[ ][A-Z]|[A-Z][a-z]+[ ]\d|1\d{3}|20\d\d))
"""
"""The dates of a life: b. 12 June 1901."""
_EVENTS = {"b": "born", "d": "died", "m": "married", "r": "reigned"}
_DOI = r"(?<![\w/.])(?i:doi)(?P<colon>:)?[ ]?(?P<doi>10\.\d{4,9}/[^\s\"'<>()\[\],;]{0,80}[\w/])"
_ARXIV = r"(?<![\w/.])(?i:arxiv):[ ]?(?P<id>\d{4}\.\d{4,5}|[a-z\-]{2,12}/\d{7})(?:v(?P<version>\d{1,2}))?(?!\w|\.\d)"
_NUMBERED = r"(?<!\w)(?P<label>PMID|PMCID|OCLC|ORCID):?[ ](?P<code>(?:PMC)?\d[\dX\-]{3,20})(?!\w)"
_ISBN = r"""
    (?<!\w) (?P<label>ISBN|ISSN|IBAN|EAN|UPC) (?:-?1[03])? (?P<link>:?[ ](?:is[ ]|number[ ]|\#[ ]?)?|:)
    (?P<code>[\dX\- ]{8,30}) (?!\w)
"""
_STANDARD = r"""
    (?<!\w) (?P<label>RFCs?|IEEE|PEP|BCP|ISO(?:/IEC)?|IEC|EN|DIN|ASTM) (?P<gap>[ ]|-(?=\d{4}))
    (?P<number>[1-9]\d{2,4}) (?:-(?P<part>\d{1,2})(?![\w\-]))? (?::(?P<year>(?:19|20)\d\d))? (?![\w%\-]|[.,:]\d)
"""
_CODEC = r"(?<![\w.])(?P<label>[HGTX])\.(?P<number>\d{3,4})(?![\w.]\w|\w)"
"""H.264, G.711, X.509: recommendations of the ITU."""


def _part(text: str) -> str:
    """Return a part of a section: "(2)" as typed, "(c)" and "(cc)" as letters, "(ii)" as a number."""
    if text.isdigit():
        return text
    is_numeral = len(text) > 1 and set(text) <= set("ivx")
    return numbers.cardinal(roman.value(text.upper())) if is_numeral else letters.spell(text)


def _subsection(match: re.Match[str]) -> str:
    parts = re.findall(r"\w+", match["parts"])
    number = match["number"]
    number = numbers.grouped(number) if re.fullmatch(r"[1-9]0[1-9]", number) else number  # five oh one C three
    comma = "," if parts[0].isdigit() else ""  # Article 50(2) is not Article 52
    return f"{match['label'] or ''}{number}{comma} {' '.join(map(_part, parts))}"


def _doi(match: re.Match[str]) -> str:
    return f"D O I{',' if match['colon'] else ''} {web.speak_pieces(match['doi'])}"


def _arxiv(match: re.Match[str]) -> str:
    version = f" version {numbers.cardinal(int(match['version']))}" if match["version"] else ""
    if match["id"][0].isdecimal():
        return f"archive {' dot '.join(map(numbers.digits, match['id'].split('.')))}{version}"
    return f"archive {web.speak_pieces(match['id'])}{version}"


def _isbn(match: re.Match[str]) -> str:
    code, link = match["code"], match["link"].strip(": ")
    words = ", ".join(letters.spell(" ".join(group)) for group in re.findall(r"[\dX]+", code))
    link = f" {'number' if link == '#' else link}" if link else ""
    return f"{letters.spell(match['label'])}{link} {words}{' ' if code.endswith(' ') else ''}"


def _standard(match: re.Match[str]) -> str:
    """Return a number in pairs, "twenty-six sixteen", but ISO 9001 as "nine thousand one"."""
    number = match["number"]
    if int(number) % 1000 < 10:
        words = numbers.cardinal(int(number))
    elif len(number) == 5:
        words = f"{numbers.cardinal(int(number[:2]))} {numbers.grouped(number[2:])}"
    else:
        words = numbers.grouped(number)
    part = f" {numbers.cardinal(int(match['part']))}" if match["part"] else ""
    year = f", {numbers.year(int(match['year']))}" if match["year"] else ""
    return f"{match['label']} {words}{part}{year}"


EARLY: tuple[Rule, ...] = (
    rule(_DOI, _doi, ("doi",)),
    rule(_ARXIV, _arxiv, ("arxiv",)),
    rule(
        _NUMBERED,
        lambda match: f"{letters.spell(match['label'])} {letters.spell(' '.join(match['code'].replace('-', '')))}",
        ("pmid", "pmcid", "oclc", "orcid"),
    ),
    rule(_ISBN, _isbn, ("isbn", "issn", "iban", "ean", "upc")),
    rule(_STANDARD, _standard, ("rfc", "rfcs", "ieee", "pep", "bcp", "iso", "iec", "en", "din", "astm")),
    rule(_CODEC, lambda match: f"{match['label']} dot {numbers.grouped(match['number'])}", ("H.", "G.", "T.", "X.")),
)
"""Run before paths, dates and phone numbers, for which these could be taken."""

RULES: tuple[Rule, ...] = (
    rule(_SUBSECTION, _subsection, "subsection"),
    rule(_CITED_BEFORE, r"\g<word>\g<cited>", ("ibid", "cit.")),
    rule(_BORN, lambda match: f"{_EVENTS[match['event']]} ", ("b. ", "d. ", "m. ", "r. ")),
    rule(r"(?<![\w.])fl\.[ ](?=(?:c\.[ ]?)?\d{3,4}(?!\d))", "flourished ", "fl."),
    rule(
        r"\((?P<many>ed|eds)\.\)",
        lambda match: f"({'editor' if match['many'] == 'ed' else 'editors'})",
        ("(ed", "(eds"),
    ),
    rule(r"(?<=,[ ])l\.[ ](?=\d)", "line ", " l."),
    rule(r"(?<=,[ ])n\.[ ]?(?=\d)", "note ", " n."),
    rule(r"(?<=,[ ])nn\.[ ]?(?=\d)", "notes ", ("nn",)),
    rule(r"(?<![\w.])ss\.[ ]?(?=\d)", "sections ", "ss."),
    rule(
        r"(?<![\w.])(?P<editor>[Ee])d(?P<many>s)?\.(?=[ ](?:notes?|comments?)\b)",
        lambda match: match["editor"] + ("ditors" if match["many"] else "ditor's"),
        ("ed", "eds"),
    ),
    rule(_CATALOGS, " ", "K. "),
)
"""Run before numbers are put into words, and before abbreviations such as Sec. and Art."""
