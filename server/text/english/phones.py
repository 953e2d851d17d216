"""Numbers that are read digit by digit: telephones, cards, codes, addresses of machines, flights, rooms."""

from __future__ import annotations

import re

from server.text.english import letters, numbers
from server.text.english.rules import Rule, rule

_TOLL_FREE = frozenset("800 900".split())
_INTERNATIONAL = r"(?<![\w.+])\+(?P<country>\d{1,3})(?P<rest>(?:[ .\-]?\(?\d{1,5}\)?){2,7})(?![\w])"
_AMERICAN = r"""
    (?<![\w.\-/$]) (?:(?P<one>1)[ .\-])? (?:\((?P<area>\d{3})\)[ ]?|(?P<plain>\d{3})[ .\-])
    (?P<middle>\d{3})[ .\-](?P<last>\d{4}) (?![\w\-/]|\.\d)
"""
_LOCAL = r"(?<![\w.\-/$(])(?P<middle>\d{3})-(?P<last>\d{4})(?![\w\-/]|\.\d)"
_SPACED = r"""
    (?P<before>\b(?:[Nn]umber|[Pp]hone|[Cc]all|[Dd]ial|[Tt]el|[Tt]elephone|[Cc]ell|[Mm]obile|[Ff]ax|[Tt]ext)(?:[ ](?:is|us|me|at|number|on|to)){0,3}:?[ ])
    (?P<middle>\d{3})[ .](?P<last>\d{4}) (?![\w\-/]|\.\d)
"""
_TRUNK = r"(?<![\w.\-/$+])0\d{1,4}(?:[ \-]\d{3,8}){1,3}(?![\w\-/]|\.\d)"
_SOCIAL = r"(?<![\w.\-/$])\d{3}-\d{2}-\d{4}(?![\w\-/]|\.\d)"
_CARD = r"(?<![\w.\-/$])\d{4}(?P<mark>[ \-])\d{4}(?P=mark)\d{4}(?P=mark)\d{1,7}(?![\w\-/])"
_AMEX = r"(?<![\w.\-/$])\d{4}[ \-]\d{6}[ \-]\d{5}(?![\w\-/])"
_MASKED = r"(?<!\w)(?:[xX*•]{2,16}[ \-]?){1,4}(?P<digits>\d{3,5})(?!\w)"
_IP = r"(?<![\w.])\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?P<mask>/\d{1,2})?(?P<port>:\d{1,5})?(?![\w]|\.\d)"
_LABEL = (
    r"(?:PIN|pin|[Cc]ode|CODE|ZIP|[Zz]ip|ZIP[ ]code|[Zz]ip[ ]code|[Pp]asscode|[Pp]assword|[Ee]nding[ ]in|[Ee]nds[ ](?:in|with)|[Dd]ial|[Tt]ext|"
    r"[Oo]rder|[Tt]racking|[Aa]ccount|[Cc]onfirmation|[Rr]eference|[Tt]icket|[Ss]erial|[Cc]ase|[Ii]nvoice|[Mm]ember(?:ship)?|"
    r"[Ee]xtension|[Ee]xt\.?|OTP|SSN|ID|[Ll]ast[ ]four|[Cc]ombination|[Pp]assport|[Pp]olicy|[Ll]ocker|[Rr]outing|[Bb]ooking|[Ss]ort)"
)
_LABELS = (
    "pin code zip passcode password ending ends dial text order tracking account confirmation reference ticket serial case "
    "invoice member membership extension ext otp ssn id last combination passport policy locker routing booking sort"
).split()
_LABELLED = rf"""
    (?<!\w) (?P<label>{_LABEL}(?:[ ](?:number|no\.?|code|ID|digits|id))?) (?P<link>:?[ ](?:is[ ]|are[ ]|to[ ])?|:|[ ]?\#[ ]?|[ ]No\.[ ])
    (?P<hash>\#)? (?P<digits>\d{{3,20}}(?:[ \-]\d{{2,10}}){{0,6}}) (?![\w%$€£]|[.,:]\d|[ ]?(?:percent|dollars|people|times|items|of|miles|years|days))
"""
_EMERGENCY = r"""
    (?<![\w.$\-–])(?P<number>911)(?![\w.,%–\-]\w|\w|[ ](?:people|points|miles|pages|times|items|days)\b)
  | (?P<before>\b(?:[Dd]ial(?:led|ed)?|[Cc]all(?:ed)?|[Tt]ext|[Pp]hone|[Rr]ing|[Rr]ang)[ ])(?P<short>\d{3})(?![\w%–\-]|[.,]\d|[ ](?:people|times|men|of)\b)
"""
_ROOM = r"""
    (?<!\w) (?P<word>(?i:room|suite|apartment|apt\.?|unit|flight|highway|route|interstate|bus|error|status|area[ ]code|http|
        boeing|airbus|porsche|course|train|xbox|office|port)|US)
    (?P<gap>[ ](?:code[ ]|number[ ]|\#)?|-) (?P<airline>[A-Z]{2}[ ])?(?P<number>\d{3,4}) (?![\w%$€£]|[.,:]\d)
"""
_ERROR = r"(?<![\w.,$])(?P<number>[345]\d\d)(?=[ ](?:error|status|response|page|not[ ]found)\b)"
_HASHED = r"(?<![\w&])\#[ ]?(?P<number>\d{1,20})(?![\w%]|[.,]\d)"
_ISBN = r"(?<!\w)(?P<label>ISBN|ISSN|IBAN|EAN|UPC)(?:-1[03])?:?[ ](?P<code>[\dX\- ]{8,30})(?!\w)"
_MIXED = r"(?<![\w.,$€£#@/'])(?=[A-Z0-9\-]{4,20}(?!\w))(?=[A-Z\-]*\d)(?=[\d\-]*[A-Z])(?!FY|S\d+E\d)[A-Z0-9]{1,20}(?:-[A-Z0-9]{1,12}){0,4}(?![\w\-]|\.\w)"
_ALTERNATING = re.compile(
    r"[A-Z]\d+-|-[A-Z]+\d|-.*-|[A-Z]\d+[A-Z]|\d[A-Z]+\d|[A-Z]{2,}-?\d{4,}|[A-Z]\d{4,}|\d{3,}[A-Z]"
)
_LONG = r"(?<![\w.,$€£/\-+])\d{11,}(?![\w.,]\d|\w|[%°])"
_HOUSE = r"(?<![\w.,$€£/\-])(?P<number>\d{1,5})(?P<letter>[A-D])(?=[ ][A-Z][a-z])"
_DOOR = r"(?P<word>\b(?:[Aa]partment|[Aa]pt|[Uu]nit|[Rr]oom|[Ss]uite|[Gg]ate|[Ss]eat|[Ff]lat|[Rr]ow|number)[ ]\#?)(?P<number>\d{1,4})-?(?P<letter>[A-Z])(?!\w)"
_STREETS = "st ave rd blvd dr ln ct pl way street avenue road boulevard drive lane court place".split()
_ROOMS = "room suite apartment apt unit flight highway route interstate bus error status area http boeing airbus porsche course train xbox office port us".split()
_HOUSE_NUMBER = (
    r"(?<![\w.,$€£/\-])\d{3,4}(?=(?:[ ][NSEW]\.?)?(?:[ ][A-Z][a-z]+|[ ]\d{1,3}(?:st|nd|rd|th)){1,3}"
    r"[ ](?:St|Ave|Rd|Blvd|Dr|Ln|Ct|Pl|Way|Street|Avenue|Road|Boulevard|Drive|Lane|Court|Place)\b)"
)
_COMPASS = r"(?<=\d[ ])(?P<direction>[NSEW])\.?(?=[ ](?:\d{1,3}(?:st|nd|rd|th)[ ]|[A-Z][a-z]+[ ](?:St|Ave|Rd|Blvd|Dr|Ln|Ct|Pl|Street|Avenue|Road)\b))"
_DIRECTIONS = {"N": "North", "S": "South", "E": "East", "W": "West"}
_PIN = r"(?P<before>\b(?:PIN|[Cc]ode|[Pp]assword|[Pp]asscode|OTP)\b[^.!?\d\n]{0,40}?(?:\bis|:)[ ])(?P<digits>\d{4,8})(?![\w%]|[.,:]\d)"
_ZIP = r"(?P<comma>,[ ]|[a-z][ ])(?P<state>[A-Z]{2})[ ](?P<zip>\d{5})(?:-(?P<more>\d{4}))?(?![\w\-]|[.,]\d)"
_STATES = dict(
    zip(
        (
            "AL AK AZ AR CA CO CT DE FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM NY NC ND OH OK "
            "OR PA RI SC SD TN TX UT VT VA WA WV WI WY DC"
        ).split(),
        (
            "Alabama,Alaska,Arizona,Arkansas,California,Colorado,Connecticut,Delaware,Florida,Georgia,Hawaii,Idaho,"
            "Illinois,Indiana,Iowa,Kansas,Kentucky,Louisiana,Maine,Maryland,Massachusetts,Michigan,Minnesota,Mississippi,"
            "Missouri,Montana,Nebraska,Nevada,New Hampshire,New Jersey,New Mexico,New York,North Carolina,North Dakota,"
            "Ohio,Oklahoma,Oregon,Pennsylvania,Rhode Island,South Carolina,South Dakota,Tennessee,Texas,Utah,Vermont,"
            "Virginia,Washington,West Virginia,Wisconsin,Wyoming,D C"
        ).split(","),
        strict=True,
    )
)
_WORDS = r"(?<!\w)(?P<one>1-)?(?P<area>8\d\d)-(?P<word>[A-Z]{3,10}(?:-[A-Z]{3,10})?)(?!\w)"
_SHORT_CODE = r"(?P<before>\b[Tt]ext\b[^.!?\n]{1,40}\bto[ ])(?P<digits>\d{5,6})(?![\w]|[.,]\d)"


def _international(match: re.Match[str]) -> str:
    groups = re.findall(r"\d+", match["rest"].replace("(0)", ""))
    if sum(map(len, groups)) < 6:
        return match[0]
    return ", ".join([f"plus {numbers.digits(match['country'])}", *map(numbers.digits, _split(groups))])


def _split(groups: list[str]) -> list[str]:
    """Cut an undivided number into groups that can be followed."""
    if len(groups) > 1:
        return groups
    (group,) = groups
    return [group[:3], group[3:6], group[6:]] if len(group) > 7 else [group[:3], group[3:]]


def _american(match: re.Match[str]) -> str:
    area = match["area"] or match["plain"]
    head = ["one"] if match["one"] else []
    head.append(f"{numbers.cardinal(int(area))}" if match["one"] and area in _TOLL_FREE else numbers.digits(area))
    return ", ".join([*head, numbers.digits(match["middle"]), numbers.digits(match["last"])])


def _grouped(match: re.Match[str]) -> str:
    return ", ".join(map(numbers.digits, re.findall(r"\d+", match[0])))


def _ip(match: re.Match[str]) -> str:
    address = match[0][
        : min((match.start(name) for name in ("mask", "port") if match[name]), default=match.end()) - match.start()
    ]
    words = " dot ".join(map(numbers.digits, address.split(".")))
    if match["mask"]:
        words += f" slash {numbers.cardinal(int(match['mask'][1:]))}"
    return words + (f" colon {numbers.digits(match['port'][1:])}" if match["port"] else "")


def _labelled(match: re.Match[str]) -> str:
    groups = re.findall(r"\d+", match["digits"])
    link = match["link"].replace("#", " number ") if "#" in match["link"] else match["link"]
    link = " number " if link.strip() == "No." else link
    words = ", ".join(map(numbers.digits, groups))
    return f"{match['label']}{link.replace('  ', ' ')}{'number ' if match['hash'] else ''}{words}"


def _room(match: re.Match[str]) -> str:
    gap = match["gap"].replace("#", "number ").replace("-", " ")
    airline = f"{letters.spell(match['airline'])} " if match["airline"] else ""
    return f"{match['word']}{gap}{airline}{numbers.grouped(match['number'])}"


def _zip(match: re.Match[str]) -> str:
    state = _STATES.get(match["state"])
    if state is None:
        return match[0]
    more = f", {numbers.digits(match['more'])}" if match["more"] else ""
    return f"{match['comma']}{state} {numbers.digits(match['zip'])}{more}"


def _words(match: re.Match[str]) -> str:
    one = "one, " if match["one"] else ""
    return f"{one}{numbers.grouped(match['area'])}, {match['word'].lower().replace('-', ' ')}"


def _hashed(match: re.Match[str]) -> str:
    number = match["number"]
    return f"number {numbers.digits(number) if len(number) > 3 else numbers.cardinal(int(number))}"


def _isbn(match: re.Match[str]) -> str:
    code = match["code"]
    words = ", ".join(letters.spell(" ".join(group)) for group in re.findall(r"[\dX]+", code))
    return f"{letters.spell(match['label'])} {words}{' ' if code.endswith(' ') else ''}"


def _mixed(match: re.Match[str]) -> str:
    """Return a code of capitals and digits character by character; others are left to later rules."""
    code = match[0]
    if not _ALTERNATING.search(code) or re.fullmatch(r"\d+[A-Z]{1,4}|[A-Z]+-\d{1,3}", code):
        return code
    return (
        ", ".join(letters.spell(" ".join(group)) for group in re.findall(r"[A-Z]+|\d+", code) if group)
        if len(code) > 8 and "-" in code
        else " ".join(letters.spell(" ".join(group)) for group in code.split("-"))
    )


RULES: tuple[Rule, ...] = (
    rule(_IP, _ip, "digit."),
    rule(_ISBN, _isbn, ("isbn", "issn", "iban", "ean", "upc")),
    rule(_WORDS, _words, "digit-"),
    rule(_SHORT_CODE, lambda match: match["before"] + numbers.digits(match["digits"]), frozenset(("text",))),
    rule(_INTERNATIONAL, _international, "+"),
    rule(_CARD, _grouped, "digit space digit"),
    rule(_AMEX, _grouped, "digit space digit"),
    rule(_MASKED, lambda match: f"ending in {numbers.digits(match['digits'])}", "masked"),
    rule(_AMERICAN, _american, "digit space digit"),
    rule(
        _SPACED,
        lambda match: f"{match['before']}{numbers.digits(match['middle'])}, {numbers.digits(match['last'])}",
        ("number", "phone", "call", "dial", "tel", "telephone", "cell", "mobile", "fax", "text"),
    ),
    rule(_TRUNK, _grouped, "digit space digit"),
    rule(_SOCIAL, _grouped, "digit-"),
    rule(_LOCAL, _grouped, "digit-"),
    rule(_LABELLED, _labelled, _LABELS),
    rule(
        _EMERGENCY,
        lambda match: (match["before"] or "") + numbers.digits(match["number"] or match["short"]),
        ("911", "dial", "dialed", "dialled", "call", "called", "text", "phone", "ring", "rang"),
    ),
    rule(_ZIP, _zip, "digit zip"),
    rule(_COMPASS, lambda match: f"{_DIRECTIONS[match['direction']]}", "digit direction"),
    rule(
        _PIN,
        lambda match: f"{match['before']}{numbers.digits(match['digits'])}",
        ("pin", "code", "password", "passcode", "otp"),
    ),
    rule(_HOUSE_NUMBER, lambda match: numbers.grouped(match[0]), _STREETS),
    rule(_ROOM, _room, _ROOMS),
    rule(_ERROR, lambda match: numbers.grouped(match["number"]), ("error", "status", "response", "page", "not")),
    rule(_HASHED, _hashed, "#"),
    rule(
        _DOOR,
        lambda match: f"{match['word']}{numbers.grouped(match['number'])} {match['letter']}",
        ("apartment", "apt", "unit", "room", "suite", "gate", "seat", "flat", "row", "number"),
    ),
    rule(_HOUSE, lambda match: f"{numbers.grouped(match['number'])} {match['letter']}", "digit A"),
    rule(_MIXED, _mixed, ("digit letter", "letter digit")),
    rule(_LONG, lambda match: numbers.digits(match[0]), "three digits"),
)
