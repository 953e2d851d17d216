"""Roman numerals in context as words: Henry VIII, Chapter IV, World War II, XXI century."""

from __future__ import annotations

import re

from server.text.english import numbers
from server.text.english.first_names import FIRST_NAMES
from server.text.english.rules import Rule, rule
from server.text.patterns import lazy

_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_ROMAN = r"(?=[IVXLCDM])M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})"
_COUNTED = (
    "chapter|part|act|scene|volume|vol|book|section|article|title|type|phase|stage|class|level|episode|appendix|figure|"
    "table|grade|mark|category|schedule|lesson|unit|page|war|bowl|tier|round|amendment|chapters|parts|season|vatican|"
    "wrestlemania|rocky|rambo|fantasy|apollo|saturn|division|group|factor|quest|kombat|fighter|souls|civilization|"
    "diablo|warcraft|starcraft|gta|auto|age|trimester|column|exhibit|annex|region|zone|quarter|paragraph|clause|item|"
    "number|step|canto|psalm|symphony|sonata|opus|movement|generation|basic|olympiad|civ|games|congress|corps|creed|halo"
)
MONARCHS = (
    "Henry|Louis|Elizabeth|George|Edward|Richard|Charles|James|William|Paul|Pius|Benedict|Napoleon|Nicholas|Catherine|"
    "Philip|Ferdinand|Otto|Leo|Gregory|Innocent|Clement|Frederick|Ivan|Peter|Alexander|Francis|Ramses|Ramesses|Ptolemy|"
    "Darius|Xerxes|Cleopatra|Mary|Margaret|Christian|Gustav|Gustavus|Carl|Haakon|Olav|Harald|Alfonso|Juan|Albert|Leopold|"
    "Baldwin|Rainier|Felipe|Philippe|Wilhelm|Friedrich|Joseph|Urban|Boniface|Sixtus|Adrian|Eugene|Julius|Alexios|Manuel|"
    "Constantine|Theodosius|Justinian|Mehmed|Murad|Selim|Suleiman|Abdul|Rama|Sobhuza|Malcolm|Robert|David|Kenneth|Stephen|"
    "John|Edmund|Harold|Canute|Cyrus|Artaxerxes|Antiochus|Seleucus|Hussein|Mohammed|Hassan|Pedro|Umberto|Vittorio|Emmanuel|"
    "Emanuel|Victor|Thutmose|Amenhotep|Isabella|Joao|Beatrix|Margrethe|Celestine|Callixtus|Honorius|Lothair|Conrad|Rudolf|"
    "Maximilian|Franz|Matthias|Sigismund|Casimir|Stanislaus|Augustus|Bela|Andrew|Menelik|Tutankhamun|Howell"
).split("|")
_NOT_BEFORE_X = frozenset(("Malcolm", "Victor"))
"""Names of monarchs after which X is a letter: Malcolm X."""
_COUNTED_RULE = rf"(?<!\w)(?P<word>(?:{_COUNTED})\.?[ ])(?P<roman>{_ROMAN})(?![\w])(?!'[a-rt-z])(?!-\d)"
_PART = rf"""
    (?<!\w) (?P<word>(?:[Ss]ection|[Aa]rticle|[Pp]art|[Aa]ppendix|[Ii]tem)[ ])
    (?P<roman>{_ROMAN})\.(?P<letter>[A-Z]|\d{{1,2}}) (?![\w.]\w|\w)
"""
"""Section IV.B."""
_KING_RULE = rf"(?<!\w)(?P<word>(?:{'|'.join(MONARCHS)})[ ])(?P<roman>{_ROMAN})(?!\w)(?!'[a-rt-z])(?P<after>[ ]\w+)?"
_CENTURY = rf"""
    (?<!\w) (?P<roman>{_ROMAN})(?:th)?
    (?=[ -](?:century|centuries|Century|[Dd]ynasty|Olympi(?:ad|c|cs)|Congress|Legion|Amendment|Army|Corps)\b)
"""
_PERSON = r"""
    (?<!\w) (?P<names>[A-Z][a-z]+(?:[ ][A-Z]\.?)?[ ](?:[A-Z]'|Mc|Mac)?[A-Z][a-z]+(?:-[A-Z][a-z]+)?,?[ ])
    (?P<roman>III|IV|II) (?!\w)(?!'[a-rt-z])
"""
_OTHER = r"""
    (?<!\w) (?P<word> (?!(?:An?|The|My|Her|His|Our|No|In|On|At|This|That|Your|Their|With|By|For)[ ]) [A-Z][a-z]+[ ] )
    (?P<roman> X{0,3}(?:IX|IV|VI{1,3}|I{2,3}) | X{1,3}I{1,3} | X{2,3}V? ) (?!\w)(?!'[a-rt-z])(?!(?<=X)\s*[.!?]*\s*$)
"""
NUMERAL = lazy(r"X{0,3}(?:IX|IV|VI{0,3}|I{2,3})|X{1,3}I{1,3}|X{2,3}V?")
"""A Roman numeral that is no word: XIV, but not "I" or "MIX"."""
_AFTER_ACRONYM = r"(?<!\w)(?P<word>[A-Z]{3,6}[ ])(?P<roman>I{2,3}|VI{1,3}|IX|(?<=[A-Z]{4}[ ])IV)(?!\w)(?!'[a-rt-z])"
"""SALT II."""
_YEAR = r"(?<!\w)(?P<roman>M(?:CM|DC{0,3}|D)?M?(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3}))(?!\w)"
_NUMERALS = r"X{0,3}(?:IX|IV|V?I{1,3}|V)|X{1,3}"
_CASE = rf"""
    \b(?P<word>(?:[Cc]ase|[Pp]late|[Tt]ablet|[Bb]ay)[ ]) (?=[IVXLCDM]{{2}})(?P<roman>{_ROMAN}) (?!\w|[ ][A-Z]\b)
"""
_SPAN = rf"(?<![\w.\-])(?P<start>{_NUMERALS})[-–](?P<end>{_NUMERALS})(?![\w\-])(?<!X-X)(?<!I-I)"
_LOW_SPAN = r"(?<![\w.'–\-])(?P<start>[ivx]{2,6})[-–](?P<end>[ivx]{1,6})(?![\w'\-])"
"""pp. xvi-xx."""
_MARK = rf"(?<!\w)Mk\b\.?[ ]?(?=[IVX])(?P<roman>{_ROMAN})(?!\w)"
"""Mk. II."""
_OXIDATION = r"(?<=[a-z])\((?P<roman>I{1,3}|IV|VI{0,2})\)"
"""The charge of an ion: iron(III)."""
_LONG = r"(?<![\w'\-.])(?:X{1,2}I{2,3}|VI{2,3}|X{1,2}VI{0,3}|X{1,2}I[VX]|XXI)(?![\w'\-])(?<!\bXV)"
"""A numeral of three and more letters that stands alone: XVI."""
_SMALL = r"(?:I{1,3}|IV|VI{0,3}|IX|X{1,2}(?:I[VX]|VI{0,3}|I{0,3}))"
_LISTED = rf"""
    (?<![\w.'–\-]) (?P<first>{_SMALL}) (?P<others>(?:,[ ]{_SMALL}(?!\w)){{0,8}})
    (?P<link>,?[ ](?:and|or|&)[ ]) (?P<last>{_SMALL}) (?![\w'–\-])
"""
"""I, II and III."""
_BRACKETED = r"(?<![\w()])\((?P<roman>[ivx]{1,6})\)(?:[ ]?(?P<to>[-–])[ ]?\((?P<last>[ivx]{1,6})\))?(?P<next>[ ]?)"
_BRACKETED_LIST = lazy(r"\((?:ii|iii|iv|vii|viii)\)")
_LOWER = lazy(r"x{0,3}(?:ix|iv|vi{0,3}|i{1,3})|x{1,3}")
_NOT_ENUMERATED = lazy(r"(?:and|or|to|above|below|are|is|apply|applies|of|in|through|were|was|has|have)\b|[.,;:)]|$")
_AFTER_ONE = lazy(r"\s*(?:$|[.,:;)!?\-]|(?:of|and|or|to|in|is|was|has|diabetes|error|errors|by|on)\b)")
_NUMBER_AFTER = lazy(r"[ ](?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|\w+ty)\b")
_SHORT_COUNTED = "no ch chap vol sec".split()
"""Abbreviations that become one of these words before."""
_LOWER_CASE = frozenset("chapter part act scene page pages volume vol section appendix".split())
"""Words before numerals in lower case: page iv."""
_AFTER_FIRST = frozenset(
    "of and or in to at by was is had did who died ruled reigned became succeeded ascended himself herself on for from "
    "with then also his her again too when while before after until".split()
)
"""Words after which "Charles I" is the king. Before another verb, "Mary I spoke to", it is the pronoun."""
_PRONOUN_VERBS = frozenset("am have think know want love like hope need see saw will would miss mean don can".split())
"""Words before which "I" is the pronoun: "Mary I love you"."""
_REIGN = lazy(
    r"\b(?i:kings?|queens?|emperors?|empress|popes?|tsars?|czars?|kaiser|sultan|monarchs?|thrones?|reign\w*|rule[ds]|"
    r"crown\w*|dynasty|tudors?|stuarts?|century|charter|abdicated|heir)\b|\b1[0-8]\d\d\b"
    r"|\b(?:of|[Uu]nder)[ ][A-Z][a-z]+[ ]I\b"
)
"""What shows that "Elizabeth I" is the queen before any word."""
LISTED = frozenset("ii iii iv vi vii viii ix".split())
"""Roman numerals before the items of a list, apart from those that are single letters. They end no sentence."""
_OUTLINE = lazy(r"(?:^|[.!?:;,] )I\. [A-Z].*[.;,] II\. [A-Z]")
_OUTLINE_ITEM = rf"(?:(?<=^)|(?<=[.!?:;,][ ]))(?P<roman>{_SMALL})\.[ ](?=[\"'(]?[A-Z])"
"""I. Introduction, II. Methods."""
_ITEM = rf"(?:(?<=^)|(?<=[.!?:;][ ]))(?P<roman>i|{'|'.join(sorted(LISTED))})\.[ ](?=[\"'(]?[A-Z\d])"
"""i. Tea. ii. Milk."""


_MONARCH_BEFORE = lazy(rf"\b(?:{'|'.join(MONARCHS)}) $")


def value(text: str) -> int:
    """Return the value of a Roman numeral. A pattern that ignores case also takes İ for an i."""
    total, text = 0, text.replace("İ", "I")
    for index, character in enumerate(text):
        worth = _VALUES[character]
        total += -worth if index + 1 < len(text) and _VALUES[text[index + 1]] > worth else worth
    return total


def _item(match: re.Match[str]) -> str:
    """Return the number of an item. "i." after "h." is a letter."""
    if match["roman"] == "i" and "h. " in match.string[: match.start()]:
        return match[0]
    return f"{numbers.cardinal(value(match['roman'].upper()))}. "


def _counted(match: re.Match[str]) -> str:
    roman = match["roman"]
    if not roman.isupper() and not roman.islower():
        return match[0]
    if roman.islower() and match["word"].strip(" .").lower() not in _LOWER_CASE:
        return match[0]
    if len(roman) == 1 and roman.upper() in "CDLM":
        return match[0]
    if roman == "X" and match["word"].lower().startswith("generation"):
        return match[0]
    if (
        len(roman) == 1
        and match["word"].lower() in ("number ", "item ")
        and _NUMBER_AFTER.match(match.string, match.end())
    ):  # model number X twelve
        return match[0]
    if roman == "I" and match["word"][0].islower() and not _AFTER_ONE.match(match.string, match.end()):
        return match[0]
    return match["word"] + numbers.cardinal(value(roman.upper()))


def _part(match: re.Match[str]) -> str:
    letter = match["letter"]
    return match["word"] + f"{numbers.cardinal(value(match['roman']))} {letter}"


def _reigns(match: re.Match[str]) -> bool:
    """Return whether the text is about a monarch, so that "I" after the name is no pronoun."""
    after = (match["after"] or "").strip()
    return after not in _PRONOUN_VERBS and _REIGN.search(match.string) is not None


def _king(match: re.Match[str]) -> str:
    roman, name, after = match["roman"], match["word"].strip(), match["after"] or ""
    if roman in ("C", "D", "L", "M") or (roman == "X" and name in _NOT_BEFORE_X):
        return match[0]
    named = after.strip()[:1].isupper() and after.strip().lower() not in _PRONOUN_VERBS
    if roman == "I" and after and not named and after.strip() not in _AFTER_FIRST and not _reigns(match):
        return match[0]
    if roman == "V" and after.strip() in ("neck", "for"):
        return match[0]
    return f"{match['word']}the {numbers.ordinal(value(roman))}{after}"


def _listed(match: re.Match[str]) -> str:
    """Return a list of numerals in words. Single letters, "I and X", and letters alone, "X or XX", are unchanged."""
    numerals = [*re.findall(r"[IVX]+", match["first"] + match["others"]), match["last"]]
    if match["last"] == "I":  # the pronoun: "Pius XII and I"
        return match[0]
    if all(len(numeral) == 1 or set(numeral) == {"X"} for numeral in numerals):
        return match[0]
    if _MONARCH_BEFORE.search(match.string, 0, match.start()):
        *words, last = (f"the {numbers.ordinal(value(numeral))}" for numeral in numerals)
    else:
        *words, last = (numbers.cardinal(value(numeral)) for numeral in numerals)
    return f"{', '.join(words)}{match['link'].replace('&', 'and')}{last}"


def _bracketed(match: re.Match[str]) -> str:
    """Return "(ii)" as "two". A letter such as "(i)" is a numeral if the text has another one."""
    if not _BRACKETED_LIST.search(match.string) or not _LOWER.fullmatch(match["roman"]):
        return match[0]
    words = numbers.cardinal(value(match["roman"].upper()))
    if match["to"]:
        words += f" to {numbers.cardinal(value(match['last'].upper()))}"
    after = _NOT_ENUMERATED.match(match.string, match.end())
    return words + (match["next"] if after or match["to"] else ", ")


def _person(match: re.Match[str]) -> str:
    names = match["names"]
    if names.split()[0] not in FIRST_NAMES:
        return match[0]
    return f"{names}the {numbers.ordinal(value(match['roman']))}"


def _other(match: re.Match[str]) -> str:
    return match["word"] + numbers.cardinal(value(match["roman"]))


def _alone(match: re.Match[str]) -> str:
    roman = match["roman"]
    return numbers.cardinal(value(roman)) + match["stop"] if len(roman) > 1 else match[0]


def _year(match: re.Match[str]) -> str:
    number = value(match["roman"])
    return numbers.year(number) if len(match["roman"]) > 3 and 1000 < number < 2200 else match[0]


def _span(match: re.Match[str]) -> str:
    return f"{numbers.cardinal(value(match['start']))} to {numbers.cardinal(value(match['end']))}"


def _low_span(match: re.Match[str]) -> str:
    if not (_LOWER.fullmatch(match["start"]) and _LOWER.fullmatch(match["end"])):
        return match[0]
    return " to ".join(numbers.cardinal(value(match[each].upper())) for each in ("start", "end"))


def is_item(word: str, text: str) -> bool:
    """Return whether ``word``, which has a full stop after it, is the numeral of an item of a list in ``text``."""
    return word in LISTED or (word.lower() in LISTED and word.isupper() and _OUTLINE.search(text) is not None)


def _outline_item(match: re.Match[str]) -> str:
    """Return the number of an item in an outline, which has a first and a second one."""
    return f"{numbers.cardinal(value(match['roman']))}, " if _OUTLINE.search(match.string) else match[0]


EARLY: tuple[Rule, ...] = (
    rule(_OUTLINE_ITEM, _outline_item, ("I. ",)),
    rule(_BRACKETED, _bracketed, ("(i", "(v", "(x")),
    rule(_ITEM, _item, ("i. ", *LISTED)),
)
"""Run before letters in brackets are read as an enumeration."""

RULES: tuple[Rule, ...] = (
    rule(_LISTED, _listed, "roman"),
    rule(
        rf"(?<!\w)SB[ ](?=[IVXL]{{2}})(?P<roman>{_ROMAN})(?!\w)",
        lambda match: f"Super Bowl {numbers.cardinal(value(match['roman']))}",
        "SB ",
    ),
    rule(
        r"(?<!\w)(?P<roman>X{0,3}(?:IX|IV|VI{0,3}|I{1,3}|X))th(?!\w)",
        lambda match: numbers.ordinal(value(match["roman"])),
        ("Vth", "Xth", "Ith"),
    ),
    rule(_SPAN, _span, "roman"),
    rule(_LOW_SPAN, _low_span, tuple(f"{letter}{dash}" for letter in "ivx" for dash in "-–")),
    rule(_MARK, lambda match: f"Mark {numbers.cardinal(value(match['roman']))}", ("mk",)),
    rule(_OXIDATION, lambda match: f" {numbers.cardinal(value(match['roman']))}", ("(I", "(V")),
    rule(
        r"(?<=\b(?:first|third)[ ])X[IV](?!\w)|(?<=\bsecond[ ])X[IV](?!\w)|(?<=\d(?:st|nd|rd|th)[ ])X[IV](?!\w)",
        lambda match: numbers.cardinal(value(match[0])),
        ("xi", "xv"),
    ),
    rule(_KING_RULE, _king, frozenset(map(str.lower, MONARCHS))),
    rule(_PERSON, _person, "roman"),
    rule(_PART, _part, "roman"),
    rule(_COUNTED_RULE, _counted, frozenset((*_COUNTED.split("|"), *_SHORT_COUNTED)), ignore_case=True),
    rule(
        r"(?P<before>\b(?i:volume|part|mark|type|stage|class|level|book|chapter|act|episode|season|phase|session)[ ]"
        r"[a-z-]+[ ]of[ ])"
        r"(?P<roman>I{2,3}|IV|VI{1,3}|IX)(?![\w'])",
        lambda match: match["before"] + numbers.cardinal(value(match["roman"])),
        "roman",
    ),
    rule(
        r"(?<=\b[Ss]eries[ ])(?:I{2,3}|IV|VI{1,3})(?![\w'])",  # not X, as in Xbox Series X
        lambda match: numbers.cardinal(value(match[0])),
        ("series",),
    ),
    rule(_CASE, lambda match: match["word"] + numbers.cardinal(value(match["roman"])), "roman"),
    rule(_CENTURY, lambda match: numbers.ordinal(value(match["roman"])), "roman"),
    rule(_OTHER, _other, "roman"),
    rule(_AFTER_ACRONYM, _other, "roman"),
    rule(_YEAR, _year, "roman"),
    rule(_LONG, lambda match: numbers.cardinal(value(match[0])), "roman"),
    rule(r"^\s*(?P<roman>X{0,3}(?:IX|IV|V?I{0,3}))(?P<stop>[.!?]?\s*)$", _alone, "roman"),
)
"""Run before acronyms are spelled."""
