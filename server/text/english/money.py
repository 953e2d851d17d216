"""Amounts of money as words: $3.50, €19.99, £5bn, 50¢, 20 USD, $15-$25, $1,500/month."""

from __future__ import annotations

import re

from server.text.english import attributive, numbers
from server.text.english.currencies import CODES, CURRENCIES, SCALE_WORDS, SCALES, Coin
from server.text.english.rules import Rule, alternatives, rule
from server.text.english.unit_words import RESOLUTIONS

_PER = {
    "mo": "month",
    "month": "month",
    "yr": "year",
    "year": "year",
    "y": "year",
    "hr": "hour",
    "hour": "hour",
    "h": "hour",
    "day": "day",
    "d": "day",
    "wk": "week",
    "week": "week",
    "night": "night",
    "person": "person",
    "user": "user",
    "seat": "seat",
    "unit": "unit",
    "item": "item",
    "each": "each",
    "lb": "pound",
    "yd": "yard",
    "kg": "kilogram",
    "oz": "ounce",
    "gal": "gallon",
    "gallon": "gallon",
    "l": "liter",
    "mi": "mile",
    "mile": "mile",
    "km": "kilometer",
    "sqft": "square foot",
    "kWh": "kilowatt hour",
    "GB": "gigabyte",
    "min": "minute",
    "minute": "minute",
    "page": "page",
    "ticket": "ticket",
    "child": "child",
    "adult": "adult",
    "word": "word",
    "token": "token",
    "bottle": "bottle",
    "box": "box",
    "piece": "piece",
    "share": "share",
    "sh": "share",
    "sh.": "share",
    "room": "room",
    "student": "student",
    "mo.": "month",
    "yr.": "year",
    "hr.": "hour",
    "bbl": "barrel",
    "barrel": "barrel",
    "oz.": "ounce",
    "lb.": "pound",
    "ton": "ton",
    "tonne": "tonne",
    "sq ft": "square foot",
    "fl oz": "fluid ounce",
    "fl. oz.": "fluid ounce",
    "pp": "person",
    "pax": "person",
    "head": "head",
    "ea": "each",
    "ea.": "each",
    "doz": "dozen",
    "doz.": "dozen",
    "dz": "dozen",
    "nt": "night",
    "nt.": "night",
    "bag": "bag",
    "bale": "bale",
    "pt": "pint",
    "qt": "quart",
    "cord": "cord",
    "line": "line",
    "slice": "slice",
    "game": "game",
    "class": "class",
    "lesson": "lesson",
    "session": "session",
    "couple": "couple",
    "family": "family",
    "ft": "foot",
    "g": "gram",
    "ml": "milliliter",
}
_PER |= {
    each: each
    for each in (
        "dozen pack carton case pint quart cup yard acre plate pair set roll sheet bunch jar can tray crate sack stem "
        "pound ounce liter litre gram foot meter kid guest vehicle entry visit call message image license device member"
    ).split()
}
_PER |= {each.upper(): _PER[each] for each in "hr hour day wk week mo month yr year night person lb gal".split()}
_SYMBOL = alternatives(CURRENCIES)
_SYMBOL_STARTS = re.escape("".join(sorted({symbol[0] for symbol in CURRENCIES})))
_SCALE = rf"""
    (?: [ -]?(?P<word>(?i:{"|".join(SCALE_WORDS)}))\b
      | [ ]?(?P<letter>bn|Bn|BN|bln|mn|MN|mln|trn|tn|TN|mil|MM|mm|[KkMmBbTt])(?![\w$%]) )?
"""
_NUMBER = r"\d+(?:,\d{2,3})*(?:\.\d+)?|\.\d+"
_QUANTITY = r"1(?:0*[kKMB]|00+|0{0,2}(?:,000)+)"
"""The quantity of a rate: "$5/1M tokens", "$2/1,000 words". Any other number after a slash may be a second price."""
_AMOUNT = rf"""
    (?=[Aa+\-−{_SYMBOL_STARTS}])
    (?:(?<![\w])(?P<article>[Aa]n?)[ ])?
    (?P<sign>(?<![\w.,)])[-+−])?
    (?<![\w.,]) (?P<symbol>{_SYMBOL})[ ]? (?P<minus>[-−])?
    (?P<number>{_NUMBER})
    (?: (?P<first>[ ]?(?i:million|billion|trillion|thousand)|bn|[KkMBT])?
        (?:[ ]?[-–][ ]?|(?P<link>[ ]to[ ])(?=[$€£¥])) (?P=symbol)? (?P<to>{_NUMBER}) )?
    {_SCALE}
    (?P<more>\+)?
    (?: [ ]?/[ ]?(?P<per>{alternatives(_PER)})(?!\w)
      | (?P<quantity>[ ]?/[ ]?(?={_QUANTITY}[ ][a-z])))?
"""
_AFTER = rf"""
    (?=[-+−.\d])
    (?<![\w.,$€£]) (?P<sign>[-+−])? (?P<number>{_NUMBER}) {_SCALE}
    [ ]?(?P<code>[€£¥₹₩₽₺₪₫฿₱₴]|(?:{alternatives(code for code in CODES if code.isupper())})(?!\w)|\$(?![\w$]))
"""
_BEFORE = rf"(?<![\w/])(?P<code>{alternatives(CODES)})[ ]?(?P<sign>[-−])?(?P<number>{_NUMBER}){_SCALE}(?!\w)"
_NEGATIVE = r"""
    (?P<before>\b(?:loss|income|flow|profit|earnings|EBITDA|deficit|result|margin)\b[^.!?$€£()]{0,30}[ ])
    \((?P<amount>[$€£][\d.,]+(?:[KkMBT]|bn)?)\)
"""
"""The negative amount of a balance sheet: "a loss of ($2.4M)"."""
_TWICE = rf"""
    [$€£] (?=\d[\d,]{{0,15}}(?:\.\d)?(?:[ ]?(?:{"|".join(SCALE_WORDS)}|[KkMBb]|bn))?[ -](?:dollars?|pounds|euros)\b)
"""
"""A symbol whose currency is also a word: $5 million dollars."""
_RENTS = {
    "pcm": "per calendar month",
    "pw": "per week",
    "pp": "per person",
    "pn": "per night",
    "ppn": "per person per night",
    "pppn": "per person per night",
    "pa": "per annum",
}
_RENT = rf"(?P<amount>[$€£]\d[\d,]{{0,12}}(?:\.\d\d)?k?)[ ]?(?P<per>{alternatives(_RENTS)})(?![\w.]\w|\w)"
"""£1,250 pcm."""
_FOR = r"(?<![\w./$£€,])(?P<count>\d{1,2})/(?=[$£€]\d)"
"""3/$10: three for ten dollars."""
_SHILLINGS = r"""
    (?<!\w) £(?P<pounds>\d{1,6}) [ ]? (?P<shillings>1?\d)s\b\.? (?:[ ]?(?P<pence>1?\d)d\b\.?)?
"""
"""£3 10s. 6d.: British money until 1971."""
_CENT_WORDS = (
    "(?:per|each|more|less|off|higher|lower|an?[ ](?:share|piece|lit(?:er|re)|unit|minute|mile)"
    "|to[ ](?:[a-z-]+[ ]){1,4}(?:dollars|euros|pounds))"
)
"""Words after 40c, which could be a seat or a temperature."""
_CENTS = rf"""
    (?<![\w.,]) (?!(?:{RESOLUTIONS})p) (?P<number>{_NUMBER}) [ ]?
    (?P<coin> ¢ | (?<=\d)p(?!\w) | (?<=\d)c(?=[ ]{_CENT_WORDS}\b) )
    (?:/(?P<per>kWh|share|lb|mile|gallon|min|word)\b)?
"""
_CENTS_PER = {"kWh": "kilowatt hour", "lb": "pound", "min": "minute"} | {
    each: each for each in ("share", "mile", "gallon", "word")
}
_CODE_NEEDS = (*(code.lower().rstrip(".") for code in CODES), *"€£¥₹₩₽₺₪₫฿₱₴$")
_MUCH_MONEY = (
    r"\b(?P<before>(?i:mak(?:e|es|ing)|made|sav(?:e|es|ing)|earn|big|more|the|my|your|of|for|some)[ ])\${2,5}(?![\w$])"
)
"""make $$$."""
_ALONE = {"$": "dollar sign", "€": "euro sign", "£": "pound sign", "¥": "yen sign", "¢": "cent sign", "₹": "rupee sign"}


def _amount(match: re.Match[str]) -> str:
    coin = CURRENCIES[match["symbol"]]
    article = f"{match['article']} " if match["article"] else ""
    sign = _sign(match["sign"] or match["minus"])
    scale = (match["word"] or SCALES.get(match["letter"] or "", "")).lower()
    number = match["number"]
    describes = not match["per"] and attributive.amount(
        match.string, *match.span(), article=bool(article), large=bool(scale)
    )
    if article and describes and number.partition(".")[0] in ("8", "11", "18", "80") and article.strip() in ("a", "A"):
        article = f"{match['article']}n "
    if match["to"]:
        first = (match["first"] or "").strip()
        first = SCALES.get(first, first).lower()
        words = _range(number, match["to"], (first if first != scale or match["link"] else "", scale), coin, describes)
    elif scale:
        words = f"{numbers.number(number)} {scale} {coin[0] if describes else coin[1]}"
    elif describes and "." not in number:
        words = f"{numbers.number(number)} {coin[0]}"
    else:
        words = amount(number, coin)
    more = " plus" if match["more"] else ""
    if more and match.string[match.end() : match.end() + 1].isalpha():  # £60+fees
        more += " "
    per = _PER.get(match["per"] or "", "")
    if match["quantity"]:
        return f"{article}{sign}{words}{more} per "
    return article + sign + words + more + (f" {per}" if per == "each" else f" per {per}" if per else "")


def _range(start: str, end: str, scales: tuple[str, str], coin: Coin, describes: bool) -> str:
    first, scale = scales
    if ("." in start or "." in end) and not scale:
        return f"{amount(start, coin)} to {amount(end, coin)}"
    unit = coin[0] if describes else coin[1]
    return " ".join(filter(None, (numbers.number(start), first, "to", numbers.number(end), scale, unit)))


def amount(number: str, coin: Coin) -> str:
    """Return an amount with its coins in words: "3.50" is "three dollars and fifty cents"."""
    whole, point, fraction = number.replace(",", "").partition(".")
    if point and (len(fraction) != 2 or not coin[2]):
        return f"{numbers.number(number)} {coin[0] if numbers.is_one(number) else coin[1]}"
    parts = int(fraction) if fraction else 0
    small = f"{numbers.cardinal(parts)} {coin[2] if parts == 1 else coin[3]}" if parts else ""
    if small and not whole.strip("0"):
        return small
    large = f"{numbers.number(whole.lstrip('0') or '0')} {coin[0] if whole == '1' else coin[1]}"
    return f"{large} and {small}" if small else large


def _sign(sign: str | None) -> str:
    if not sign:
        return ""
    return "plus " if sign == "+" else "minus "


def _with_code(match: re.Match[str]) -> str:
    code = match["code"]
    coin = CODES.get(code) or CURRENCIES[code]
    scale = (match["word"] or SCALES.get(match["letter"] or "", "")).lower()
    sign = _sign(match["sign"])
    if scale:
        return f"{sign}{numbers.number(match['number'])} {scale} {coin[1]}"
    return sign + amount(match["number"], coin)


def _cents(match: re.Match[str]) -> str:
    one, many = ("penny", "pence") if match["coin"] == "p" else ("cent", "cents")
    article = attributive.after_article(match.string, match.start())
    describes = match["coin"] == "¢" and match["per"] is None
    if describes and attributive.amount(match.string, *match.span(), article=article, large=False):
        return f"{numbers.number(match['number'])} cent"
    return numbers.plural(match["number"], one, many) + (f" per {_CENTS_PER[match['per']]}" if match["per"] else "")


def _shillings(match: re.Match[str]) -> str:
    parts = [
        numbers.plural(match["pounds"], "pound", "pounds"),
        numbers.plural(match["shillings"], "shilling", "shillings"),
    ]
    if match["pence"]:
        parts.append(f"{numbers.cardinal(int(match['pence']))} pence")
    return ", ".join(parts)


RULES: tuple[Rule, ...] = (
    rule(_TWICE, "", ("dollar", "dollars", "pounds", "euros")),
    rule(r"(?<=\d)/\$(?=[\s.,;)]|$)", " per dollar", "/$"),
    rule(_RENT, lambda match: f"{match['amount']} {_RENTS[match['per']]}", _RENTS),
    rule(_FOR, lambda match: f"{numbers.cardinal(int(match['count']))} for ", ("/$", "/£", "/€")),
    rule(_SHILLINGS, _shillings, "£"),
    rule(_NEGATIVE, r"\g<before>-\g<amount>", ("($", "(€", "(£")),
    rule(_AMOUNT, _amount, tuple(sorted({symbol[-1] for symbol in CURRENCIES}))),
    rule(_AFTER, _with_code, _CODE_NEEDS),
    rule(_BEFORE, _with_code, _CODE_NEEDS),
    rule(_CENTS, _cents, ("¢", "digit p", "digit c")),
    rule(_MUCH_MONEY, r"\g<before>money", "$$"),
    rule(r"(?<![\w$])\${2,5}(?![\w$])", lambda match: " ".join(["dollar sign"] * len(match[0])), "$$"),
    rule(r"(?<!\S)[$€£¥¢₹](?!\S)", lambda match: _ALONE[match[0]], tuple("$€£¥¢₹")),
)
