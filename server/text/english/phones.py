"""Numbers that are read digit by digit: telephones, cards, codes, addresses of machines, flights, rooms."""

from __future__ import annotations

import re

from server.text.english import letters, numbers
from server.text.english.rules import Rule, rule

_TOLL_FREE = frozenset("800 900".split())
_INTERNATIONAL = r"(?<![\w.+])\+(?P<country>\d{1,3})(?P<rest>(?:[ .\-]?\(?\d{1,5}\)?){2,6})(?![\w])"
_AMERICAN = r"""
    (?<![\w.\-/$]) (?:(?P<one>1)[ .\-])? (?:\((?P<area>\d{3})\)[ ]?|(?P<plain>\d{3})[ .\-])
    (?P<middle>\d{3})[ .\-](?P<last>\d{4}) (?![\w\-/]|\.\d)
"""
_LOCAL = r"(?<![\w.\-/$(])(?P<middle>\d{3})-(?P<last>\d{4})(?![\w\-/]|\.\d)"
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
_LABELLED = rf"""
    (?<!\w) (?P<label>{_LABEL}(?:[ ](?:number|no\.?|code|ID|digits|id))?) (?P<link>:?[ ](?:is[ ]|are[ ]|to[ ])?|:|[ ]?\#[ ]?|[ ]No\.[ ])
    (?P<hash>\#)? (?P<digits>\d{{3,20}}(?:[ \-]\d{{2,10}}){{0,6}}) (?![\w%$€£]|[.,:]\d|[ ]?(?:percent|dollars|people|times|items|of|miles|years|days))
"""
_EMERGENCY = r"(?<![\w.$])(?P<number>911|999|112|411|311|211|511|611|711|811|988)(?![\w.,%]\w|\w|[ ]\w+s\b)"
_ROOM = r"""
    (?<!\w) (?P<word>[Rr]oom|[Ss]uite|[Aa]partment|[Aa]pt\.?|[Uu]nit|[Ff]light|[Hh]ighway|[Rr]oute|[Ii]nterstate|[Bb]us|[Ee]rror|[Ss]tatus|
        [Aa]rea[ ]code|HTTP|[Bb]oeing|[Aa]irbus|[Pp]orsche|Highway|US|[Cc]ourse|[Tt]rain|[Xx]box)
    (?P<gap>[ ](?:code[ ]|number[ ]|\#)?|-) (?P<number>\d{3,4}) (?![\w%$€£]|[.,:]\d)
"""
_ERROR = r"(?<![\w.,$])(?P<number>[345]\d\d)(?=[ ](?:error|status|response|page|not[ ]found)\b)"
_HASHED = r"(?<![\w&])\#[ ]?(?P<number>\d{1,20})(?![\w%]|[.,]\d)"
_ISBN = r"(?<!\w)(?P<label>ISBN|ISSN|IBAN|EAN|UPC)(?:-1[03])?:?[ ](?P<code>[\dX\- ]{8,30})(?!\w)"
_MIXED = r"(?<![\w.,$€£#@/'])(?=[A-Z0-9\-]{4,20}(?!\w))(?=[A-Z\-]*\d)(?=[\d\-]*[A-Z])[A-Z0-9]{1,12}(?:-[A-Z0-9]{1,12}){0,4}(?![\w\-]|\.\w)"
_ALTERNATING = re.compile(r"[A-Z]\d+[A-Z]|\d[A-Z]+\d|[A-Z]{2,}-?\d{4,}|[A-Z]\d{4,}|\d{3,}[A-Z]")
_LONG = r"(?<![\w.,$€£/\-+])\d{11,}(?![\w.,]\d|\w|[%°])"
_HOUSE = r"(?<![\w.,$€£/\-])(?P<number>\d{1,5})(?P<letter>[A-D])(?=[ ][A-Z][a-z])"


def _international(match: re.Match[str]) -> str:
    groups = re.findall(r"\d+", match["rest"])
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
    address = match[0][: min((match.start(name) for name in ("mask", "port") if match[name]), default=match.end()) - match.start()]
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
    return f"{match['word']}{gap}{numbers.grouped(match['number'])}"


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
    return ", ".join(letters.spell(" ".join(group)) for group in re.findall(r"[A-Z]+|\d+", code) if group) if len(
        code
    ) > 8 and "-" in code else " ".join(letters.spell(" ".join(group)) for group in code.split("-"))


RULES: tuple[Rule, ...] = (
    rule(_IP, _ip, "."),
    rule(_ISBN, _isbn, "A"),
    rule(_INTERNATIONAL, _international, "+"),
    rule(_CARD, _grouped),
    rule(_AMEX, _grouped),
    rule(_MASKED, lambda match: f"ending in {numbers.digits(match['digits'])}", "xX*•"),
    rule(_AMERICAN, _american),
    rule(_SOCIAL, _grouped, "-"),
    rule(_LOCAL, _grouped, "-"),
    rule(_LABELLED, _labelled),
    rule(_EMERGENCY, lambda match: numbers.digits(match["number"])),
    rule(_ROOM, _room),
    rule(_ERROR, lambda match: numbers.grouped(match["number"])),
    rule(_HASHED, _hashed, "#"),
    rule(_HOUSE, lambda match: f"{numbers.grouped(match['number'])} {match['letter']}"),
    rule(_MIXED, _mixed),
    rule(_LONG, lambda match: numbers.digits(match[0])),
)
