"""Symbols as words: &, @, #, +, =, ±, ≈, →, §, ©, and/or, C++, R&D."""

from __future__ import annotations

import re

from server.text.english import letters
from server.text.english.rules import Rule, rule
from server.text.english.unit_words import PER
from server.text.patterns import lazy

_LANGUAGES = {"C++": "C plus plus", "C#": "C sharp", "F#": "F sharp", "G++": "G plus plus", "g++": "G plus plus"}
_SIMPLE: dict[str, str] = {
    "&": "and",
    "±": "plus or minus",
    "×": "times",
    "÷": "divided by",
    "=": "equals",
    "≠": "is not equal to",
    "≈": "approximately",
    "≤": "less than or equal to",
    "≥": "greater than or equal to",
    "→": "to",
    "➔": "to",
    "➜": "to",
    "⟶": "to",
    "←": "from",
    "⇒": "implies",
    "↔": "to and from",
    "⇔": "if and only if",
    "§": "section",
    "∠": "angle",
    "∛": "the cube root of",
    "¶": "paragraph",
    "©": "copyright",
    "∞": "infinity",
    "√": "square root of",
    "∑": "sum of",
    "∏": "product of",
    "∫": "integral of",
    "∂": "partial",
    "∇": "nabla",
    "∈": "in",
    "∉": "not in",
    "∩": "intersection",
    "∪": "union",
    "⊂": "subset of",
    "∅": "the empty set",
    "∘": "composed with",
    "∀": "for all",
    "∃": "there exists",
    "¬": "not",
    "∧": "and",
    "∨": "or",
    "°": "degrees",
    "%": "percent",
    "@": "at",
    "π": "pi",
    "№": "number",
    "℅": "care of",
    "℃": "degrees Celsius",
    "℉": "degrees Fahrenheit",
    "Ω": "ohms",
    "∆": "delta",
    "△": "triangle",
    "≅": "is congruent to",
    "∥": "is parallel to",
    "⊥": "is perpendicular to",
    "⟂": "is perpendicular to",
    "∝": "is proportional to",
    "≡": "is identical to",
    "↑": "up",
    "↓": "down",
    "€": "euros",
    "£": "pounds",
    "¥": "yen",
    "₹": "rupees",
    "¢": "cents",
    "$": "dollars",
    "\\": "backslash",
}
_ALL = "".join(_SIMPLE)
_ABBREVIATED_AND = r"(?<!\w)(?P<first>[A-Z]{1,3})&(?P<second>[A-Z]{1,3})(?!\w)"
_OR = r"""
    (?<![\w/]) (?P<first>(?i:he|she|his|her|him|yes|true)) / (?P<second>(?i:she|he|hers?|him|his|no|false)) (?![\w/])
"""
_SLASH = r"(?<=[^\W_])(?P<space>[ ]?)/[ ]?(?=[^\W_])"
_VERSE = r"(?<![\w.])(?P<line>(?:[A-Za-z'-]{1,20},?[ ]){3})/[ ](?=(?:[A-Za-z'-]{1,20},?[ ]){2}[A-Za-z])"
"""The end of a line of a poem: "Roses are red / Violets are blue"."""
_PER = r"(?<=[a-z])/(?=(?:hour|day|week|month|year|person|minute|second|night|mile|page|seat|user)\b)"
_SLASH_LETTERS = r"(?<![\w/])(?P<first>[A-Z]{1,4})/(?P<second>[A-Z]{1,4})(?![\w/])"
_COMPARED = r"(?<=[\w)])[ ](?P<mark>[<>])[ ](?=[\w(-])"
_PLUS = r"(?<=\w)[ ]?\+[ ]?(?=\w)|(?<!\S)\+(?=\s)|(?<=\w)\+(?=[\s.,!?]|$)"
_APPROXIMATELY = r"[~∼](?=[ ]?[a-z])"
_HASH = r"(?<!\w)\#(?=\s?\w)"
_SIGN_NAMES = {
    "&": "ampersand", "#": "hash", "@": "at sign", "*": "asterisk", "/": "slash", "+": "plus sign", "$": "dollar sign",
    "%": "percent sign", "^": "caret", "~": "tilde", "=": "equals sign",
}  # fmt: skip
_NAMED_SIGN = rf"""
    (?P<before>\b(?:[Aa]n?|any|another)[ ]) (?P<sign>[{re.escape("".join(_SIGN_NAMES))}])
    (?= [.,;:!?)] | \s*$ | [ ](?:or|and|in|at|after|before|between|is|as|if|for|means?)\b )
"""
"""A sign that is meant as such: "contains an & or a #"."""
_SIGN_CUE = lazy(
    r"\b(?:contain\w*|characters?|symbols?|strings?|passwords?|file ?names?|prefix\w*|escap\w*|typ(?:e|ed|ing) an?)\b"
    r"|(?<!\S)[&@*^~](?!\S)",
    re.IGNORECASE,
)
"""Without it, "a #" is a number, "a %" a percentage and "a +" an advantage."""
_HASH_KEY = r"""
    (?P<before> (?i:\b(?:press|hit|dial|push|followed[ ]by)[ ]) (?:[^.!?\n\#]{0,30}[ ])? ) \#(?!\w|[ ]?\d|[ ]of\b)
  | (?<=\w[ ])\#(?=[ ](?:key|sign)\b)
"""
"""The key of a telephone: "press #", "or # to finish"."""
_MANY_BEFORE = lazy(r"(?<![\w.])[a-z]{2,12}(?<!s)(?<!u)(?<!i)s$")
_VERB_BEFORE = lazy(r"(?:\b(?:is|are|was|were|be|been|remains?|stays?)|'s|'re)$")
_AMOUNT_BEFORE = lazy(
    r"\b(?:takes?|took|lasts?|lasted|needs?|requires?|costs?|weighs?|has|have|had|got|spen[dt]|uses?|used|keeps?|for|with|at|in|of"
    r"|to|by|from|within|and|or|only)$",
    re.IGNORECASE,
)
"""What "< 5" follows without a verb: "takes < 5 min"."""
_NAMED_BEFORE = lazy(
    r"\b(?:when|while|by|after|before|for|on|without)[ ]"
    r"(?:open|handl|upload|download|us|copy|send|read|writ|select|filter|load|sav|import|export|pars)ing[ ]"
    r"(?:(?:an?|the|any)[ ][a-z]+|(?:[a-z]+[ ])?[a-z]+[a-rt-z]s)$",
    re.IGNORECASE,
)
"""What is compared in a phrase without a verb: "when opening files > 2 GB"."""
_AMOUNT_AFTER = lazy(
    r"[\d$€£]|(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|\w+ty|half|an?)\b"
)


def _named_sign(match: re.Match[str]) -> str:
    sign, article = match["sign"], match["before"]
    if sign == "+" and match.string[: match.start()].endswith(("is ", "are ")):
        return f"{article}plus"
    if sign in "+%" and not _SIGN_CUE.search(match.string):
        return article + ("plus" if sign == "+" else "percentage")
    if sign in "#/$=" and not _SIGN_CUE.search(match.string):
        return match[0]
    name = _SIGN_NAMES[sign]
    if article.lower() in ("a ", "an "):
        article = article[0] + ("n " if name[0] in "ae" else " ")
    return article + name


def _and(match: re.Match[str]) -> str:
    return f"{letters.spell(match['first'])} and {letters.spell(match['second'])}"


def _bound(match: re.Match[str]) -> str:
    words = "less than" if match["mark"] == "<" else "more than" if not match["equal"] else "greater than"
    return f"{words}{' or equal to' if match['equal'] else ''} "


def _compared(match: re.Match[str]) -> str:
    before = max(0, match.start() - 10), match.start()
    amount = _AMOUNT_AFTER.match(match.string, match.end()) and _AMOUNT_BEFORE.search(match.string, *before)
    phrase = _NAMED_BEFORE.search(match.string, max(0, match.start() - 60), match.start())
    verb = "" if amount or phrase or _VERB_BEFORE.search(match.string, *before) else "is "
    if verb and _MANY_BEFORE.search(match.string, 0, match.start()):
        verb = "are "
    return f" {verb}{'less' if match['mark'] == '<' else 'greater'} than "


def _grade(match: re.Match[str]) -> str:
    return f"{match['grade'] or match['a'] or match['plain']} minus"


def _blood(match: re.Match[str]) -> str:
    """Return a blood type. A grade, which looks alike, is unchanged."""
    if not _BLOOD_SOMEWHERE.search(match.string):
        return match[0]
    return f"{letters.spell(match['type'])} {'positive' if match['sign'] == '+' else 'negative'}"


def _slash_letters(match: re.Match[str]) -> str:
    return " ".join(
        letters.spell(match[name]) if len(match[name]) == 1 else match[name] for name in ("first", "second")
    )


_BLOOD = r"(?<![\w+\-])(?P<type>AB|[ABO])(?P<sign>[-+−])(?!\w)"
_BLOOD_SOMEWHERE = lazy(
    r"(?i:\bblood[ ](?:types?|groups?|is|was|banks?|donors?|tests?|supply|drives?)\b|\b(?:donors?|transfusions?)\b)"
    r"|\b[Tt]ypes?[ ](?:AB|[ABO])[-+−]|(?<!\w)(?:AB|[ABO])[-+−][ ](?:blood|plasma)\b|(?<!\w)AB[-+−](?!\w)"
)
"""What shows that A+ is a blood type."""
_STARRED = r"""
    (?<=[1-7])\*(?=[ ](?:hotels?|resorts?|rat(?:ed|ing)|reviews?|luxury|prices?|service|general|accommodation)\b)
  | (?<=\bGrade[ ]II)\*
"""


def _chord(match: re.Match[str]) -> str:
    note, sign = match["note"] or match["root"], "flat" if match["sign"] == "b" else "sharp"
    minor = " minor" if match["minor"] or match["root"] else ""
    return f"{note} {sign}{minor}{' seven' if match['seventh'] or match['last'] else ''}"


_FOOTNOTE = r"(?P<word>\b[a-z]{4,20}[.,;:!?]?)(?P<number>[¹²³⁴-⁹]{1,2})(?=[\s.,;:!?)]|$)"
"""The study¹ was retracted."""
_POWERED = lazy(
    r"(?:met(?:er|re)s?|feet|foot|inch(?:es)?|miles?|yards?|seconds?|acres?|pixels?|widths?|heights?|lengths?|depths?|sides?"
    r"|edges?|radius|diameter|distance|speed|velocity|error|mass|light|time|sigma|chi|beta|delta|alpha|theta"
    r"|(?:sin|cos|tan)h)$"
)
"""Words that may have an exponent."""


def _footnote(match: re.Match[str]) -> str:
    """Return the word before a footnote mark. The mark of "radius²", or in an equation, is an exponent."""
    if _POWERED.search(match["word"]) or "=" in match.string:
        power = {"²": " squared", "³": " cubed"}.get(match["number"])
        return f"{match['word']}{power}" if power else match[0]
    return match["word"]


FIRST: tuple[Rule, ...] = (
    rule(
        r"(?<=\d%)/(?P<unit>day|week|wk|month|mo|year|yr|hour|hr|min)(?!\w)",
        lambda match: f" per {PER[match['unit']]}",
        "%/",
    ),
    rule(r"(?<!\w)(?P<kind>ASP|VB|ADO)\.NET\b", lambda match: f"{' '.join(match['kind'])} dot net", ".NET"),
    rule(_FOOTNOTE, _footnote, tuple("¹²³⁴⁵⁶⁷⁸⁹")),
    rule(_VERSE, lambda match: f"{match['line'].rstrip(' ,')}, ", " / "),
    rule(r"(?<=\+\+|[ACF]\#)/(?=[A-Z])", ", ", "/"),
    rule(r"(?<=[A-Z][ ])–(?=\d{1,3}(?:\.\d{1,3})?%)", "-", "–"),
)
"""Run before code, paths and dashes: C++/C#, TSLA –3.4%."""

EARLY: tuple[Rule, ...] = (
    rule(r"(?<=[a-z])/(?=\d{1,3}%)", ", ", r"/\d"),
    rule(r"(?<![\w.])1:1s(?!\w)", "one on ones", "1:1"),
    rule(
        r"(?<![\w.:])1:1(?=[ ](?:with|w/)[ ](?:my|your|his|her|our|their|[A-Z][a-z])|[ ](?:meetings?|calls?|chats?)\b)",
        "one on one",
        "1:1",
    ),
    rule(
        r"[ ]/[ ](?:(?<=[a-z][ ]/[ ])|(?<=[ECMPSD]T[ ]/[ ]))"
        r"(?=\d{1,5}(?:\.\d)?(?:%|°|:\d\d|[ ]?(?:mpg|mph|am|pm)\b))"
        r"|(?<=[ap]m[ ][ECMP]T)[ ]/[ ]",
        ", ",
        " / ",
    ),
    rule(_STARRED, " star", "*"),
    rule(
        _BLOOD,
        _blood,
        ("blood", "donor", "donors", "transfusion", "transfusions", "type", "types", "AB+", "AB-", "AB−"),
    ),
    rule(
        r"(?<![\w\#])(?P<note>[A-G])(?P<sign>[\#b])(?P<minor>m)?(?P<seventh>7)?"
        r"(?=[ ](?:major|minor|maj|min|chord|scale)\b)"
        r"|(?<![\w\#])(?P<root>[A-G])\#m(?P<last>7)?(?![\w])",
        _chord,
        ("#", "major", "minor", "maj", "min", "chord", "scale"),
    ),
    rule(r"(?<![\w/])[fF]/(?=\d{1,2}(?:\.\d)?(?![\w/]))", "F ", ("f/", "F/")),
    rule(r"(?<=\d\d)\*(?=[ ](?:off[ ]\d|\(\d+(?:\)|[ ]balls?\b)))", " not out", "*"),
)
"""Run before numbers are put into words."""

RULES: tuple[Rule, ...] = (
    rule(r"(?<!\w)(?:[CG]\+\+|g\+\+|[CF]\#)(?!\w)", lambda match: _LANGUAGES[match[0]], ("++", "C#", "F#")),
    rule(r"(?<!\w)\.NET\b", "dot net", ".NET"),
    rule(_ABBREVIATED_AND, _and, "&"),
    rule(r"§§[ ]?", "sections ", "§§"),
    rule(r"¶¶[ ]?", "paragraphs ", "¶¶"),
    rule(_OR, r"\g<first> or \g<second>", tuple(f"{end}/" for end in "esrmESRM")),
    rule(r"\b(?P<first>and|either|neither)/(?P<second>n?or)\b", r"\g<first> \g<second>", ("/or", "/nor")),
    rule(
        r"(?P<grade>\b(?:[Gg]rades?(?:[ ](?:of|is|was))?:?|(?:got|earned|received|gave[ ]me)[ ]an?)[ ][A-D])-(?![\w-])"
        r"|(?P<letter>\b[A-D])-(?=[ ]=)",
        lambda match: f"{match['grade'] or match['letter']} minus",
        "-",
    ),
    rule(r"(?<=\w[ ])\*(?=[ ]\w)", "star", "*"),
    rule(r"(?<=\b[Tt]he[ ])\^(?=[ ][a-z])", "caret", "^"),
    rule(_NAMED_SIGN, _named_sign, tuple(f"{end} {sign}" for end in "any" for sign in _SIGN_NAMES)),
    rule(_HASH_KEY, lambda match: f"{match['before'] or ''}pound", "#"),
    rule(r"(?<=[a-z][ ])\#(?=[?.!,;:]|\s*$)", "number", "#"),
    rule(r"(?<=\w[ ])_(?=[ ]\w)", "underscore", "_"),
    rule(_PER, " per ", "/"),
    rule(r"(?<=[a-z])/(?P<unit>mo|yr|wk|hr)(?!\w)\.?", lambda match: f" per {PER[match['unit']]}", "/"),
    rule(_SLASH_LETTERS, _slash_letters, "/"),
    rule(_SLASH, " slash ", "/"),
    rule(_COMPARED, _compared, ("<", ">")),
    rule(r"(?<![^\s(\[])(?P<mark>[<>])(?P<equal>=?)[ ]?(?=[\w$€£])", _bound, ("<", ">")),
    rule(
        r"(?<=[A-Za-z])(?P<mark>[<>])(?=\d)",
        lambda match: f" {'less' if match['mark'] == '<' else 'greater'} than ",
        ("<", ">"),
    ),
    rule(r"(?<=\()(?P<grade>[A-F])\+(?=\))", r"\g<grade> plus", ("+)",)),
    rule(r"(?<=[A-G])(?P<mark>[♯♭])", lambda match: " sharp" if match["mark"] == "♯" else " flat", ("♯", "♭")),
    rule(
        r"(?<=\b[Aa][ ])(?P<grade>[A-F])-(?=[\s.,;:!?]|$)|(?<=\b[Aa]n[ ])(?P<a>A)-(?=[\s.,;:!?]|$)"
        r"|(?<![\w.])(?P<plain>[A-F])-(?=[ ](?:in|on|overall|average|student|grade)\b|[.,;)])",
        _grade,
        tuple(f"{letter}-" for letter in "ABCDEF"),
    ),
    rule(r"(?<=[\w)\]%])[ ]\|(?=[ ]\S)", ",", " | "),
    rule(_PLUS, " plus ", "+"),
    rule(_APPROXIMATELY, "about ", ("~", "∼")),
    rule(r"(?<=[\u2500-\u25ff])°|°(?=[\u2500-\u25ff])", " ", "°"),
    rule(r"[™®℠*†‡•·◦▪■●※]", " ", tuple("™®℠*†‡•·◦▪■●※")),
    rule(_HASH, "number ", "#"),
    rule(r"(?<!\w)[μΩ](?!\w)", lambda match: "mu" if match[0] == "μ" else "omega", ("μ", "Ω")),
    rule(
        r"(?P<sign>[∑∏∫√∛])[ ]?of(?!\w)",
        lambda match: f"{_SIMPLE[match['sign']].removesuffix(' of')} of",
        tuple("∑∏∫√∛"),
    ),
    rule(rf"[{re.escape(_ALL)}]", lambda match: f" {_SIMPLE[match[0]]} ", tuple(_ALL)),
)
