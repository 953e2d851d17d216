"""Numbers that no other rule has read: percentages, ordinals, signs, cardinals, letters next to digits."""

from __future__ import annotations

import re

from server.text.english import letters, numbers
from server.text.english.rules import Rule, rule
from server.text.patterns import lazy

_SIGNS = {"-": "minus ", "−": "minus ", "+": "plus ", "±": "plus or minus ", "~": "about "}
_TEAM = r"(?<!\w)'?(?P<number>\d\d)ers(?!\w)"
"""49ers."""
_PERCENT = rf"""
    (?=[-+−±~.\d])
    (?P<sign>(?<![\w)])[-+−±~])? (?<![\w.,])(?<!\d/) (?P<number>{numbers.NUMBER}|\.\d+)
    (?:[ ]?%?[ ]?[-–][ ]?(?P<to>{numbers.NUMBER}))? [ ]?(?P<mark>%|‰|pct\b\.?|percent\b)
"""
_ORDINAL = r"""
    (?<![\w.]) (?P<number>\d{1,3}(?:,\d{3})+|\d{1,15}) (?:st|nd|rd|th|ST|ND|RD|TH|ˢᵗ|ⁿᵈ|ʳᵈ|ᵗʰ) (?![^\W_])
"""
_SIGNED = rf"(?P<sign>[-+−±])(?<![\w)].)(?P<number>{numbers.NUMBER})"
_ABOUT = r"(?<![\w~])[~≈∼][ ]?(?=\d|[$€£])"
_TIMES = rf"(?<![\w.,])(?P<number>{numbers.NUMBER})[x×](?!\w)"
_DECADES = r"(?<![\w.,$€£:/\-])(?P<first>[2-9]0)s[-–](?P<last>[2-9]0)s(?!\w)"
"""60s-70s."""
_COUNTED = r"\b(?P<count>(?:two|three|four|five|six|seven|eight|nine|ten|several|some)[ ])(?P<number>\d{1,3})s(?![\w-])"
"""Three 5s."""
_TIMES_RANGE = rf"""
    (?<![\w.,\-–^$€£])(?<![=+*/(<>][ ]) (?P<first>{numbers.NUMBER})[-–](?P<last>{numbers.NUMBER})
    [x×](?!\w|\^|[ ]?[=+*/<>\-−])
"""
_VARIABLE = lazy(r"\bx (?:squared|cubed|to the|equals)\b|\bof x\b|[\d)]x\^|\bx[\^²³]")
_PLUS = rf"(?<![\w.,])(?P<number>{numbers.NUMBER})\+(?![\w+])"
_DECIMAL = r"\.(?<![\w.].)\d+"
_NUMBER = r"\d(?:(?<!\d\d)\d{0,2}(?:,\d{3})+(?:\.\d+)?(?!\d)|\d*(?:\.\d+)?)"
_LETTER = lazy(r"[^\W\d_]")
_LEADING = r"(?P<letters>[A-Za-z](?<![\w.].)[A-Za-z]{0,11})(?P<number>\d{1,4})(?P<tail>[A-Za-z]{0,3})(?!\w|[.]\d)"
_TRAILING = r"(?P<number>\d(?<![\w.,].)\d{0,3})(?P<letters>[A-Za-z]{1,3})(?!\w)"
_SUFFIXES = frozenset("st nd rd th".split())

_MILLIONS = r"""
    (?<![\w.,$€£]) (?P<number>\d{1,3}(?:\.\d{1,2})?)m
    (?=[ ](?:shares|people|users|customers|subscribers|followers|views|downloads|copies|units|barrels|tonnes|homes|jobs
      |vehicles|workers|households|passengers|visitors|viewers|records|rows|accounts|votes)\b)
"""
"""1.25m shares."""
_RACE = r"""
    (?<![\w.,$€£]) (?P<number>5|8|10|15|21|42)k
    (?= [.,;:!?)] | \s*$ | [ ](?:in|on|at|for|before|after|races?|runs?|PB|PR|time|today|this|last|and|with|was|is)\b )
"""
_RUNNING = lazy(r"\b(?:PR|PB|races?|raced|ran|runs?|runner|running|jog\w*|marathon|parkrun|finish(?:ed)?)\b")
"""What shows that 5k is a distance."""
_A_MONTH = r"(?<=[\d.])-a-(?=(?:day|night|week|month|year)\b)"
_POINTS = r"""
    (?<![\w.,]) (?P<sign>[-+−])? (?<![.,])
    (?: (?P<number>\d{1,3}\.\d{1,2}|(?<=[-+−])\d{1,3}) [ ]?pp
      | (?P<typed>\d{1,3}(?:\.\d{1,2})?) [ ]?(?:(?:%|pct\b\.?|percent(?:age)?)[- ]?(?:pts?\b\.?(?!\w)|points?)|ppts?) )
    (?![\w.]\w|\w)
"""
"""-0.3pp, 4 pct. pts.: percentage points."""
_TYPE_SIZE = (
    r"(?<=\d)(?:-pts?\.?(?!\w)|[ ]?pts?\.?(?=[ ](?:Arial|Times|Helvetica|Calibri|Georgia|Garamond|Verdana|Courier"
    r"|Cambria|Roboto|Inter|Comic|font|type|text|serif|sans|bold|leading)\b))"
)
"""12-pt. type, 10pt Helvetica."""
_UNDERSCORES = r"(?<![\w.])\d{1,3}(?:_\d{3})+(?![\w.])"
"""1_000_000, as in programs."""
_ISH = r"(?<=[\d%])-?ish(?!\w)"
_DOTTED_GROUPS = r"(?<![\w.,])\d{1,3}(?:\.\d{3}){2,8}(?![\w.])"
_SPACED_GROUPS = r"(?<![\w.,\-])[1-9]\d{0,2}(?:[ ]000){1,8}(?![\w\-]|[.,]\d|[ ]\d)"
_SPACED = r"(?<![\w.,:/+-])(?<![\w)][-–])(?P<number>[1-9]\d{0,2}(?:[ ]\d{3}){1,4})(?![\w-]|[.,]\d|[ ]\d)"
"""67 886 011."""
_SPELLED_BEFORE = lazy(
    r"\b(?:(?i:call|phone|tel|telephone|fax|mobile|text|dial|numbers?|combo|combination|ref|reference|codes?|pin|account"
    r"|acct|card|tracking|iban|isbn|serial|ids?|order|invoice|case|policy|sizes?)\b|[A-Z]{2,4} )"
)
"""What shows that groups of digits are no thousands: "call 555 123 456"."""
_THOUSANDS_AFTER = lazy(r" (?:[a-z]{3,}s\b|people|years?|km|kg|euros?)")
_SPACED_NEAR = 40
_SWISS = r"(?<![\w.,'])\d{1,3}(?:'\d{3}){1,4}(?![\w'])"
"""1'000'000."""
_OLD_ORDINAL = r"""
    (?<![\w.,]) (?P<number>\d?[23])d
    (?=[ ](?:of|day|inst|ult|instant|ultimo|Congress|session|[Rr]egiment|[Cc]avalry|[Ii]nfantry|[Dd]ivision
    |January|February|March|April|May|June|July|August|September|October|November|December)\b)
"""
"""2d of July: the ordinals of older American texts."""
_SPACED_COUNT = r"""
    (?=[1-9])
    (?<![\w.,\-]) (?<![A-Z][a-z]{2}[ ])(?<!day[ ])(?<!week[ ])(?<!grade[ ])(?<!page[ ]) (?<!May[ ])(?<!ch[ ])
    (?P<first>[1-9]\d{0,2}) [ ] (?P<second>\d{3})
    (?=[ ](?:reviews?|ratings|people|customers|users|votes|copies|miles|km|residents|inhabitants|views|downloads
      |students|employees)\b)
"""
"""12 651 reviews."""
_COMMA_DECIMAL = r"(?<![\w.,])\d{1,3}(?:\.\d{3})+,\d{1,2}(?![\w,]|\.\d)"
"""1.234,56: the decimal comma after dots between groups."""
_UNIT_AFTER = r"(?=[ ]?(?:°|(?:km|cm|mm|kg|mg|ml|dl|cl|l|g|m|ha|kWh?|[VAW](?![ ]and\b)|[MGk]?Hz|bar|h|min)(?!\w)))"
_CERTAIN_COMMA = rf"""
    (?=\d)(?<![\w.,$€£¥#:/()\[\-]) (?P<whole>0|[1-9]\d{{0,2}}),(?P<part>
        \d{{1,2}}{_UNIT_AFTER} | (?<=\b0,)\d{{1,6}} | (?<=\b\d,)(?!(?:1[5-9]|20)\d\d(?!\d))\d{{4,12}}
      | (?<=[≈=]\d,)\d{{1,2}} | (?<=[≈=][ ]\d,)\d{{1,2}} ) (?![\w,]|\.\d|[ ]?[-–][ ]?\d)
  | (?P<before>\b(?i:pi|value|result|average|mean|grade|GPA|rate)[ ](?:is|was|of|=)[ ])
    (?P<number>\d{{1,3}},\d{{1,2}}) (?![\w,]|\.\d|[ ]?[-–][ ]?\d|[ ](?:and|or)[ ]\d)
"""
"""36,6 °C; 0,5; 3,14159: a comma that cannot divide thousands or a list."""
_INDIAN_GROUPS = r"(?<![\w.,])\d{1,2}(?:,\d{2})+,\d{3}(?![\d,])"
"""12,34,567: lakhs and crores."""
_EURO = r"(?=[ ]?(?:€|EUR\b|euros?\b))"
_EURO_GROUPS = rf"(?<=€)\d{{1,3}}(?:\.\d{{3}})+(?![\d,.]\d|\d)|(?<![\w.,])\d{{1,3}}(?:\.\d{{3}})+{_EURO}"
_EURO_CENTS = rf"(?<=€)\d{{1,3}}(?:\.\d{{3}})*,\d{{2}}(?!\d)|(?<![\w.,])\d{{1,3}}(?:\.\d{{3}})*,\d{{2}}{_EURO}"
_EURO_NEEDS = ("€", "eur", "euro", "euros")


def _race(match: re.Match[str]) -> str:
    return f"{numbers.cardinal(int(match['number']))} K" if _RUNNING.search(match.string) else match[0]


def _percent(match: re.Match[str]) -> str:
    words = numbers.number(match["number"]) + (f" to {numbers.number(match['to'])}" if match["to"] else "")
    return f"{_SIGNS.get(match['sign'] or '', '')}{words} {'per mille' if match['mark'] == '‰' else 'percent'}"


def _certain_comma(match: re.Match[str]) -> str:
    if match["number"]:
        return match["before"] + match["number"].replace(",", ".")
    return f"{match['whole']}.{match['part']}"


def _points(match: re.Match[str]) -> str:
    sign = _SIGNS.get(match["sign"] or "", "")
    return f"{sign}{numbers.plural(match['number'] or match['typed'], 'percentage point', 'percentage points')}"


def _number(match: re.Match[str]) -> str:
    """Return a number in words, with a space between it and an adjacent letter."""
    text, (start, end) = match.string, match.span()
    before = " " if start and _LETTER.match(text[start - 1]) else ""
    after = " " if end < len(text) and _LETTER.match(text[end]) else ""
    return f"{before}{numbers.number(match[0])}{after}"


def _leading(match: re.Match[str]) -> str:
    head, tail = match["letters"], match["tail"]
    words = [letters.spell(head) if len(head) <= 2 or (head.isupper() and not letters.is_word(head)) else head]
    words.append(numbers.grouped(match["number"]))
    if tail:
        words.append(letters.spell(tail))
    return " ".join(words)


def _times(match: re.Match[str]) -> str:
    """Return "two times", or "two x" in a text about a variable x."""
    return f"{numbers.number(match['number'])} {'x' if _VARIABLE.search(match.string) else 'times'}"


def _plural(number: str) -> str:
    """Return a number in the plural: "sixties", "fives"."""
    word = numbers.cardinal(int(number))
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}es" if word.endswith("x") else f"{word}s"


def _trailing(match: re.Match[str]) -> str:
    if match["letters"] in _SUFFIXES:
        return match[0]
    if match["letters"].istitle() and len(match["letters"]) > 2 and letters.pronounceable(match["letters"].lower()):
        return f"{numbers.grouped(match['number'])} {match['letters']}"  # 2Pac
    return f"{numbers.grouped(match['number'])} {letters.spell(match['letters'])}"


def _spaced(match: re.Match[str]) -> str:
    """Return thousands with commas: round ones, and those of two and more groups before what is counted."""
    groups = match["number"].split(" ")
    if _SPELLED_BEFORE.search(match.string, max(0, match.start() - _SPACED_NEAR), match.start()):
        return match[0]
    counted = match["number"].count(" ") > 1 and _THOUSANDS_AFTER.match(match.string, match.end())
    return ",".join(groups) if counted or groups[-1] == "000" else match[0]


FIRST: tuple[Rule, ...] = (
    rule(_SPACED, _spaced, r"\d \d\d\d"),
    rule(r"(?:(?<=^)|(?<=\()|(?<=was[ ])|(?<=is[ ])|(?<=of[ ])|(?<=to[ ]))–(?=[$€£]\d)", "minus ", ("–$", "–€", "–£")),
    rule(_SWISS, lambda match: match[0].replace("'", ","), r"\d'\d"),
    rule(_UNDERSCORES, lambda match: match[0].replace("_", ""), "_"),
    rule(_OLD_ORDINAL, lambda match: f"{match['number']}{'nd' if match['number'][-1] == '2' else 'rd'}", "digit h"),
    rule(_ISH, " ish", "ish"),
    rule(r"\+[ ]?/[ ]?[-−]", "±", "/"),
    rule(
        _TIMES_RANGE,
        lambda match: f"{numbers.number(match['first'])} to {numbers.number(match['last'])} times",
        "digit x",
    ),
    rule(
        r"(?<=\d)[ ]x[ ](?=(?:a|per|each|every)[ ](?:day|week|month|year|night|hour)\b|daily\b)", " times ", "digit x"
    ),
    rule(
        r"(?P<article>\b[Aa]n?[ ])\$(?P<number>\d[\d,]{0,8})-a-(?=(?:day|night|week|month|year)[ ][a-z])",
        r"\g<article>\g<number> dollar a ",
        "-a-",
    ),
    rule(_A_MONTH, " a ", "-a-"),
    rule(_DECADES, lambda match: f"{_plural(match['first'])} to {_plural(match['last'])}", ("0s-", "0s–")),
    rule(r"\((?P<area>0\d{1,4})\)(?=[ ]\d{3,4}[ -]\d{3,4})", r"\g<area>", "("),
    rule(r"(?P<symbol>[$€£])\((?P<loss>\d[\d.,]{0,12})\)", r"-\g<symbol>\g<loss>", tuple("$€£")),
    rule(
        r"(?<![\w.,])(?P<whole>\d{1,3}),(?P<part>\d{1,2})(?=[ ]?%)",
        r"\g<whole>.\g<part>",
        [rf",\d{more}{space}%" for more in ("", r"\d") for space in ("", " ")],
    ),
    rule(_DOTTED_GROUPS, lambda match: match[0].replace(".", ""), r".\d\d\d.\d\d\d"),
    rule(_COMMA_DECIMAL, lambda match: match[0].replace(".", "").replace(",", "."), r".\d\d\d,\d"),
    rule(_CERTAIN_COMMA, _certain_comma, "digit,digit"),
    rule(_INDIAN_GROUPS, lambda match: match[0].replace(",", ""), "digit,digit"),
    rule(_SPACED_GROUPS, lambda match: match[0].replace(" ", ""), " 000"),
    rule(_SPACED_COUNT, r"\g<first>\g<second>", r"\d \d\d\d "),
    rule(_EURO_GROUPS, lambda match: match[0].replace(".", ""), _EURO_NEEDS),
    rule(_EURO_CENTS, lambda match: match[0].replace(".", "").replace(",", "."), _EURO_NEEDS),
)
"""Run before all other rules for numbers: they write digits, losses and ranges in the way those expect."""

EARLY: tuple[Rule, ...] = (
    rule(_COUNTED, lambda match: f"{match['count']}{_plural(match['number'])}", r"\ds"),
    rule(
        r"(?<![\w.,$€£\-])(?P<low>\d{1,3})[-–](?P<high>\d{1,3})k(?![\w-])",
        lambda match: f"{numbers.number(match['low'])} to {numbers.number(match['high'])} thousand",
        r"\dk",
    ),
    rule(
        r"(?<=\b[Rr][au]n[ ])(?P<number>\d{1,2}(?:\.\d)?)[kK]"
        r"(?=[.,;:!?]|[ ](?:in|at|on|this|last|today|yesterday|for|with)\b|$)",
        lambda match: f"{numbers.number(match['number'])} K",
        (r"\dk", r"\dK"),
    ),
    rule(_RACE, _race, r"\dk"),
    rule(_MILLIONS, lambda match: f"{numbers.number(match['number'])} million", "digit h"),
    rule(
        r"(?<=\d)[ ]?(?P<scale>[mb]ln|trln)\b\.?(?=[ ]|[.,;)]|$)",
        lambda match: {"m": " million", "b": " billion", "t": " trillion"}[match["scale"][0]],
        ("mln", "bln", "trln", r"\dmln", r"\dbln"),
    ),
    rule(_TYPE_SIZE, " point", ("pt",)),
    rule(_POINTS, _points, ("pp", "ppt", "ppts", "pt", "pts", "point", "points")),
    rule(_PERCENT, _percent, "digit %"),
    rule(_TEAM, lambda match: numbers.cardinal(int(match["number"])).removesuffix("e") + "ers", r"\ders"),
)

RULES: tuple[Rule, ...] = (
    rule(_ORDINAL, lambda match: numbers.ordinal(int(match["number"].replace(",", ""))), "ordinal digit"),
    rule(_ABOUT, "about ", tuple("~≈∼")),
    rule(_TIMES, _times, "digit x"),
    rule(_PLUS, lambda match: f"{numbers.number(match['number'])} plus", "digit +"),
    rule(_SIGNED, lambda match: _SIGNS[match["sign"]] + numbers.number(match["number"]), "-digit"),
    rule(_LEADING, _leading, "letter digit"),
    rule(_TRAILING, _trailing, "digit letter"),
    rule(_DECIMAL, lambda match: numbers.number(match[0]), "point digit"),
    rule(_NUMBER, _number),
)
