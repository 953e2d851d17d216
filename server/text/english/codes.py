"""Numbers and codes that are identifiers: PIN 4821, order #48213, error 404, X7K9QP, H-1B, B-52s."""

from __future__ import annotations

import re

from server.text.english import letters, numbers
from server.text.english.numbers import NOT_LASTING
from server.text.english.rules import Rule, alternatives, beside, rule
from server.text.patterns import lazy

_LABELS = (
    "pin|code|zip|zip code|passcode|password|ending in|ends in|ends with|dial|text|order|tracking|account|"
    "confirmation|reference|ref|ticket|serial|case|invoice|member|membership|extension|ext|otp|ssn|id|"
    "last four|last 4 digits|cvv|cvc|combination|passport|policy|locker|routing|booking|sort|squawk"
).split("|")
_COUNTED = "percent|dollars|people|times|items|of|miles|years|days"
_LABELLED = rf"""
    (?<!\w) (?P<label> (?i:{alternatives(_LABELS)})\.? (?:[ ](?:number|no\.?|code|ID|digits|id))? )
    (?P<link> :?[ ](?:is[ ]|are[ ]|to[ ])? | : | [ ]?\#[ ]? | [ ]No\.[ ] )
    (?P<hash>\#)?
    (?P<digits> \d{{3,20}} (?:[ \-]\d{{2,10}}){{0,6}} )
    (?! [\w%$€£] | [.,:]\d | [ ]?(?:{_COUNTED})\b )
"""
_SORT_CODE = r"(?P<before>\b[Ss]ort[ ]code(?:[ ]is|:)?[ ])(?P<digits>\d\d-\d\d-\d\d)(?![\w-])"
"""The sort code of a British bank: 20-45-09."""
_SECRETS = "pin code password passcode otp".split()
_SECRET = rf"""
    (?P<before> \b(?i:{"|".join(_SECRETS)})\b [^.!?\d\n]{{0,40}}? (?:\bis|:)[ ] )
    (?P<digits>\d{{4,8}}) (?![\w%]|[.,:]\d)
"""
"""The PIN for the card is 4821."""
_NAMED = (
    "room suite apartment apt unit flight highway route interstate bus error status http boeing airbus porsche course "
    "train xbox office port exit"
).split()
_NUMBERED = rf"""
    (?<!\w) (?P<word> (?i:{"|".join(_NAMED)}|area[ ]code)\.? | US )
    (?P<gap> [ ](?:code[ ]|number[ ]|\#)? | - )
    (?P<airline>[A-Z]{{2}}[ ])? (?P<number>\d{{3,4}}) (?![\w%$€£]|[.,:]\d)
"""
"""Room 405, flight AA 1234, US-101."""
_ERROR = r"(?<![\w.,$])(?P<number>[345]\d\d)(?=[ ](?:error|status|response|page|not[ ]found)\b)"
_ERRORS = r"""
    (?<![\w.,$-]) (?P<first>[1-5]\d\d)(?P<link>[ ](?:and|or|to)[ ]|,[ ]|/)(?P<last>[45]\d\d)
    (?=[ ](?:errors|responses|codes|statuses)\b)
"""
"""404 and 503 errors."""
_SIDES = {"L": "left", "R": "right", "C": "center"}
"""Of parallel runways: 27L."""
_STATUSES = rf"""
    (?<![\w.,$€£:/-]) {NOT_LASTING} (?P<known>(?i:the|those|these|any|random)[ ])?
    (?P<number>30[1-8]|40\d|41\d|42[2-9]|50[0-8])s
    (?!\w|[ ](?:timeout|delay|mark|window|exposure|interval|wait|limit|clip|video)\b)
"""
"""404s, the 404s: errors of a web server. Without "the", they may be seconds, unless the sentence is about servers."""
_A_STATUS = r"(?P<article>\b[Aa]n?[ ])(?P<number>[45]0\d)(?![\w%$€£-]|[.,:]\d|[ ][a-z])"
_WEB_HINT = lazy(
    r"\b(?:HTTPS?|errors?|servers?|API|endpoint|responses?|status(?:es)?|proxy|nginx|gateway|crawl\w*|return(?:s|ed|ing)"
    r"|throw(?:s|ing)?|hitting|seeing|saw|getting|logs?|\d0\ds and)\b"
)
_DASHED_NUMBER = r"""
    (?P<label>\b(?i:acct|account|tax[ ]id|ein|policy|member[ ]id)\.?(?:[ ](?:[Nn]o\.|number))?[ ]?)(?P<cue>\#[ ]?)?
    (?P<digits>\d+(?:-\d+)+) (?![\w\-])
"""
"""Acct # 0012-3345-88."""
_HASHED = r"(?:(?<![\w&])|(?<=\bPO)|(?<=\bAcct))\#[ ]?(?P<number>\d{1,20})(?![\w%]|[.,]\d)"
_UUID = r"(?<![\w\-])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![\w\-])"
_COMMIT = r"(?<![\w\-./#])(?=[a-f]*\d)(?=\d*[a-f])(?:[0-9a-f]{7,12}|[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})(?![\w\-])"
"""The name of a commit, or a checksum."""
_MIXED = r"""
    (?<![\w.,$€£#@/'])
    (?=[A-Z0-9\-]{4,20}(?!\w)) (?=[A-Z\-]*\d) (?=[\d\-]*[A-Z])    # 4 to 20 characters with a digit and a capital
    (?!FY|ES20\d\d|S\d+E\d)                                       # FY2024 and S02E05 have rules of their own
    [A-Z0-9]{1,20} (?:-[A-Z0-9]{1,12}){0,4} (?![\w\-]|\.\w)
"""
_SPELLED = lazy(r"[A-Z]\d+-|-[A-Z]+\d|-.*-|[A-Z]\d+[A-Z]|\d[A-Z]+\d|[A-Z]{2,}-?\d{4,}|[A-Z]\d{4,}|\d{3,}[A-Z]")
"""Matches a code, X7K9 or AB-1234, but not a name with a number, A320 or COVID-19."""
_NOT_SPELLED = lazy(r"\d+[A-Z]{1,4}|[A-Z]+-\d{1,3}|\d+-\d+(?:V(?:AC|DC)?|W|A|MB|GB|TB|HP|HZ|MM|KG)")
_MIN_CHANGES = 2
"""Minimum changes between letters and digits in the name of a commit."""
_FOLLOWED = 8
"""Minimum characters of a code whose groups are separated by commas."""
_MODEL = r"""
    (?<![\w.\-]) (?P<name>[A-Z][A-Za-z]{0,5}) - (?P<number>\d{1,4}) (?: (?P<letters>[A-Z]{1,2})(?P<plural>s)? | s )
    (?![\w\-]|\.\w)
"""
"""A name with a number, and letters or the s of a plural: H-1B, B-52s."""
_LONGEST_MODEL = 5
_CARGO = r"""
    \b (?P<label>(?i:container|seal|shipment|pallet|load|batch|lot|sku))
    (?P<cue> [ ]?\#[ ]?(?:is[ ])? | [ ](?:no\.|number)[ ](?:is[ ])? | [ ](?P<owner>[A-Z]{2,4})[ ] )
    (?P<digits>\d{3,12}) (?![\w%]|[.,]\d)
"""
"""Container MSCU 4471902, seal # is 83316."""
_SHIP = r"(?<!\w)(?P<label>MMSI|IMO)(?P<link>:?[ ](?:is[ ]|number[ ]|no\.[ ])?)(?P<digits>\d{9}|\d{7})(?!\w)"
_CARD_ENDING = (
    r"(?i:\b(?P<label>(?:card|account|number|phone|visa|mastercard|amex)[ ]ending[ ]))(?P<digits>\d{4})(?![\w%]|[.,]\d)"
)
_BEFORE_KEY = (
    r"(?P<before>(?i:\b(?:press|enter|dial|type|code|code's|PIN)\b)[^.!?\n]{0,20}?[ ])(?P<digits>\d{1,12})\#(?!\w)"
)
"""Digits to enter before the key #: "enter 4410#"."""
_FREQUENCY = r"""
    \b (?P<before>(?:Radar|Tower|Ground|Approach|Departure|Center|Centre|Control|Information|Radio|Unicom)[ ]on[ ])
    (?P<whole>1\d\d)\.(?P<part>\d{1,3}) (?!\w)
"""
_LEVEL = r"\b(?P<before>(?:at|to|from|above|below|maintain|through|passing|At)[ ])FL[ ]?(?P<level>\d{3})(?!\w)"
_FILE_NUMBER = r"""
    (?P<label>\b(?i:number|no\.|case|file|ref\.?|reference|licen[cs]e|application)[ ])
    (?P<first>\d{5,12})/(?P<second>\d{2,12}) (?![\w/]|[.,]\d)
"""
_GROUPED = r"""
    (?<![\w.\-/$€£+(]) (?!(?:19|20)\d\d-(?:19|20)\d\d-) (?=[\d\-]{10,30}(?![\w\-/])) (?=[\d\-]*\d{4})
    \d{1,7}(?:-\d{1,7}){2,5}
"""
"""Order 114-3941689-8772232, but not the years 2019-2020-2021."""
_DOCKET = r"(?<![\w\-])(?P<year>\d{2})-(?P<court>cv|cr|mc|md|bk|ap|CV|CR)-(?P<digits>\d{3,6})(?!\w)"
"""The number of a case at court: 22-cv-01234."""
_CASE = r"""
    (?=\d\d-) (?:(?<=\b[Nn]umber[ ])|(?<=\b[Cc]ase[ ])|(?<=\b[Dd]ocket[ ]))
    (?P<year>\d\d)-(?P<digits>\d{3,5}) (?![\w-]|[.,]\d)
"""
"""No. 22-451."""
_COURSE_WORDS = (
    "Accounting|Art|Bio|Biology|Calc|Calculus|Chem|Chemistry|Econ|Economics|English|French|Geology|German|History|Marketing"
    "|Math|Music|Nursing|Phil|Philosophy|Physics|Psych|Psychology|Sociology|Spanish|Stats|Writing"
)
_COURSE = rf"""
    (?<!\w) (?P<course>{_COURSE_WORDS})[ ](?P<number>[1-5]\d\d) (?![\w%]|[.,]\d|[ ](?:students|books|years|pieces)\b)
"""
"""Bio 101."""
_EXTENSION = r"""
    (?P<before>\b(?i:contact|call|dial|reach|phone|tel|at)[ ](?:[A-Z][a-z]+[ ](?:at[ ])?)?)
    x(?P<number>\d{3,5}) (?!\w|[.,]\d)
"""
"""Call Ann x4412."""
_TIRE = r"""
    (?<![\w.])P?(?P<width>\d{3})/(?P<ratio>\d{2})[ ]?Z?R[ ]?(?P<rim>\d{2})(?!\w)
    (?:[ ](?P<load>\d{2,3})(?P<speed>[A-Z])(?!\w))?
"""
"""225/45R17, 205/55 R16 91V."""
_HEXADECIMAL = r"(?<!\w)0[xX](?P<digits>[0-9A-Fa-f]{1,40})(?![\w]|\.\w)"
_LONG = r"(?<![\w.,$€£/\-+])\d{11,}(?![\w.,]\d|\w|[%°])"


def _labelled(match: re.Match[str]) -> str:
    link = " number " if "#" in match["link"] or match["link"] == " No. " else match["link"]
    words = ", ".join(map(numbers.digits, re.findall(r"\d+", match["digits"])))
    return f"{match['label']}{link}{'number ' if match['hash'] else ''}{words}"


def _numbered(match: re.Match[str]) -> str:
    gap = match["gap"].replace("#", "number ").replace("-", " ")
    airline = f"{letters.spell(match['airline'])} " if match["airline"] else ""
    return f"{match['word']}{gap}{airline}{numbers.grouped(match['number'])}"


def _errors(match: re.Match[str]) -> str:
    link = ", " if match["link"] == "/" else match["link"]
    return f"{numbers.grouped(match['first'])}{link}{numbers.grouped(match['last'])}"


def _sort_code(match: re.Match[str]) -> str:
    return match["before"] + ", ".join(numbers.digits(pair) for pair in match["digits"].split("-"))


def _dashed_number(match: re.Match[str]) -> str:
    groups = ", ".join(map(numbers.digits, match["digits"].split("-")))
    return f"{match['label']}{' number ' if match['cue'] else ''}{groups}"


def _hashed(match: re.Match[str]) -> str:
    number = match["number"]
    space = " " if match.string[: match.start()][-1:].isalpha() else ""
    return f"{space}number {numbers.digits(number) if len(number) > 3 else numbers.cardinal(int(number))}"


def _commit(match: re.Match[str]) -> str:
    """Return a commit or a checksum character by character, in groups of four. A number with a unit is unchanged."""
    text = match[0]
    if len(re.findall(r"[a-f]\d|\d[a-f]", text)) < _MIN_CHANGES:
        return text
    return ", ".join(_each(text[start : start + 4]) for start in range(0, len(text), 4))


def _mixed(match: re.Match[str]) -> str:
    """Return a code of capitals and digits character by character. Other text is unchanged, for later rules."""
    code = match[0]
    if not _SPELLED.search(code) or _NOT_SPELLED.fullmatch(code):
        return code
    if "-" in code and len(code) > _FOLLOWED:
        return ", ".join(map(_each, re.findall(r"[A-Z]+|\d+", code)))
    return " ".join(map(_each, code.split("-")))


def _model(match: re.Match[str]) -> str:
    """Return "H-1B" as "H one B". A longer code, "AB-1234C", is unchanged, for later rules."""
    name, number = match["name"], match["number"]
    if match["letters"] is None:
        return f"{name} {numbers.plural_number(numbers.grouped(number))}"
    if not name.isupper() or len(name) + len(number) > _LONGEST_MODEL:
        return match[0]
    spoken = letters.spell_plural(match["letters"]) if match["plural"] else letters.spell(match["letters"])
    return f"{name} {numbers.grouped(number)} {spoken}"


def _each(group: str) -> str:
    return letters.spell(" ".join(group))


def _cargo(match: re.Match[str]) -> str:
    cue = f" {letters.spell(match['owner'])}" if match["owner"] else " number"
    link = " is" if "is " in match["cue"] else ""
    return f"{match['label']}{cue}{link} {numbers.digits(match['digits'])}"


def _frequency(match: re.Match[str]) -> str:
    return f"{match['before']}{numbers.digits(match['whole'])} point {numbers.digits(match['part'])}"


def _tire(match: re.Match[str]) -> str:
    width, ratio, rim = (numbers.grouped(match[name]) for name in ("width", "ratio", "rim"))
    load = f", {numbers.grouped(match['load'])} {match['speed']}" if match["load"] else ""
    return f"{width} {ratio} R {rim}{load}"


def _course(match: re.Match[str]) -> str:
    return f"{match['course']} {numbers.grouped(match['number'])}"


def _statuses(match: re.Match[str]) -> str:
    if not match["known"] and not _WEB_HINT.search(match.string):
        return match[0]
    return (match["known"] or "") + numbers.plural_number(numbers.grouped(match["number"]))


def _a_status(match: re.Match[str]) -> str:
    return match["article"] + numbers.grouped(match["number"]) if _WEB_HINT.search(match.string) else match[0]


RULES: tuple[Rule, ...] = (
    rule(_SORT_CODE, _sort_code, ("sort",)),
    rule(
        r"(?i:\b(?P<label>runways?|rwy)\.?)[ ](?P<number>[0-3]?\d)(?P<side>[LRC])(?!\w)",
        lambda match: f"runway {' '.join(numbers.digits(match['number']).split())} {_SIDES[match['side']]}",
        ("runway", "runways", "rwy"),
    ),
    rule(
        r"(?<![\w.])(?![IVXLC]+\.)(?P<ticker>[A-Z]{2,4})\.(?P<share>[AB])(?![\w.])",
        lambda match: f"{letters.spell(match['ticker'])} {match['share']}",
        (".A", ".B"),
    ),
    rule(r"(?<!\w)501(?=s?[ ](?:jeans|[Oo]riginals?)\b)|(?<=Levi's[ ])501(?!\w)", "five oh one", "501"),
    rule(
        r"(?<![\w.])(?P<cold>\d{1,2})W-?(?P<hot>[1-6]0)(?!\w|-)",
        lambda match: f"{numbers.cardinal(int(match['cold']))} W {numbers.cardinal(int(match['hot']))}",
        ("W-", "0W", "5W"),
    ),
    rule(_TIRE, _tire, "digit/"),
    rule(_COURSE, _course, _COURSE_WORDS.lower().split("|")),
    rule(_EXTENSION, lambda match: f"{match['before']}extension {numbers.digits(match['number'])}", "letter digit"),
    rule(
        _FILE_NUMBER,
        lambda match: f"{match['label']}{numbers.digits(match['first'])} slash {numbers.digits(match['second'])}",
        "digit/",
    ),
    rule(_BEFORE_KEY, lambda match: f"{match['before']}{numbers.digits(match['digits'])} pound", "#"),
    rule(_CARGO, _cargo, ("container", "seal", "shipment", "pallet", "load", "batch", "lot", "sku")),
    rule(_SHIP, lambda match: f"{match['label']}{match['link']}{numbers.digits(match['digits'])}", ("mmsi", "imo")),
    rule(_CARD_ENDING, lambda match: match["label"] + numbers.digits(match["digits"]), ("ending",)),
    rule(_FREQUENCY, _frequency, r"\d\d\d.\d"),
    rule(
        _LEVEL, lambda match: f"{match['before']}flight level {numbers.digits(match['level'])}", ("fl", "letter digit")
    ),
    rule(_HEXADECIMAL, lambda match: f"zero X {_each(match['digits'])}", ("0x", "0X")),
    rule(_UUID, lambda match: ", ".join(map(_each, match[0].split("-"))), ("digit-", "-digit")),
    rule(_COMMIT, _commit, beside("abcdef", "abcdef", spaced=False)),
    rule(_LABELLED, _labelled, {label.split()[0] for label in _LABELS}),
    rule(_SECRET, lambda match: match["before"] + numbers.digits(match["digits"]), _SECRETS),
    rule(_ERRORS, _errors, ("errors", "responses", "codes", "statuses")),
    rule(_NUMBERED, _numbered, (*_NAMED, "area", "us", "rm", "ste", "flt", "hwy", "rte")),
    rule(_STATUSES, _statuses, r"\d\d\ds"),
    rule(_A_STATUS, _a_status, (r"a \d\d\d", r"A \d\d\d")),
    rule(_ERROR, lambda match: numbers.grouped(match["number"]), ("error", "status", "response", "page", "not")),
    rule(_DASHED_NUMBER, _dashed_number, ("acct", "account", "tax", "ein", "policy", "member")),
    rule(
        _DOCKET,
        lambda match: " ".join(
            (numbers.cardinal(int(match["year"])), letters.spell(match["court"]), numbers.digits(match["digits"]))
        ),
        [rf"\d\d-{letter}" for letter in "cmbaC"],
    ),
    rule(
        _CASE,
        lambda match: f"{numbers.cardinal(int(match['year']))} {numbers.grouped(match['digits'])}",
        "digit-",
    ),
    rule(_GROUPED, lambda match: ", ".join(map(numbers.digits, match[0].split("-"))), r"\d-\d"),
    rule(
        r"(?<![\w&])\#(?P<first>\d{1,4})[ ]?[-–][ ]?\#?(?P<last>\d{1,4})(?![\w\-]|[.,]\d)",
        lambda match: f"numbers {numbers.cardinal(int(match['first']))} to {numbers.cardinal(int(match['last']))}",
        "#",
    ),
    rule(_HASHED, _hashed, "#"),
    rule(
        r"(?<![\w.-])(?P<name>[A-Z]{1,4})(?P<number>\d{1,3})s(?!\w)",
        lambda match: f"{letters.spell(match['name'])} {numbers.plural_number(numbers.grouped(match['number']))}",
        r"\ds",
    ),
    rule(_MODEL, _model, "letter digit"),
    rule(_MIXED, _mixed, ("digit letter", "letter digit")),
    rule(_LONG, lambda match: numbers.digits(match[0]), r"\d" * 11),
)
