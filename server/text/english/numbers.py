"""Numbers as words: cardinals, ordinals, years, decimals and digit by digit (American: no "and" inside a number)."""

from __future__ import annotations

_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
_SCALES = (
    "- thousand million billion trillion quadrillion quintillion sextillion septillion octillion nonillion decillion"
).split()
_LONGEST = 3 * len(_SCALES)
"""Maximum digits of a number that is read as a cardinal; longer ones are read digit by digit."""
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
NOT_LASTING = r"(?<!\btook[ ])(?<!\bfor[ ])(?<!\bafter[ ])(?<!\bin[ ])(?<!\blasted[ ])(?<!\bof[ ])(?<!\bwithin[ ])"
"""Not after a word before a duration: "404s" has seconds in "it took 404s"."""
NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
"""Regular expression of a number without a sign: 5, 1,234, 3.14."""


def cardinal(number: int) -> str:
    """Return ``number`` in words: 125 is "one hundred twenty-five"."""
    if number < 0:
        return f"minus {cardinal(-number)}"
    if number < 1000:
        return _below_thousand(number)
    groups = []
    for scale in _SCALES:
        number, group = divmod(number, 1000)
        if group:
            groups.append(_below_thousand(group) + (f" {scale}" if scale != "-" else ""))
    if number:
        raise ValueError(f"number must have at most {_LONGEST} digits")
    return " ".join(reversed(groups))


def _below_thousand(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    if rest < 20:
        small = _UNITS[rest]
    else:
        tens, unit = divmod(rest, 10)
        small = _TENS[tens] + (f"-{_UNITS[unit]}" if unit else "")
    if not hundreds:
        return small
    return f"{_UNITS[hundreds]} hundred" + (f" {small}" if rest else "")


def ordinal(number: int) -> str:
    """Return the ordinal of ``number``: 21 is "twenty-first"."""
    return to_ordinal(cardinal(number))


def to_ordinal(words: str) -> str:
    """Return the ordinal of a cardinal in words."""
    cut = max(words.rfind(" "), words.rfind("-")) + 1
    head, last = words[:cut], words[cut:]
    if last in _ORDINALS:
        return head + _ORDINALS[last]
    return head + (f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th")


def digits(text: str, zero: str = "zero") -> str:
    """Return the digits in ``text`` one by one; other characters are skipped."""
    return " ".join(_UNITS[int(each)] if each != "0" else zero for each in text if each in "0123456789")


def year(number: int) -> str:
    """Return a year from 0 to 9999 in words: 1905 is "nineteen oh five", 2008 "two thousand eight"."""
    century, rest = divmod(number, 100)
    if number < 1000 or (century % 10 == 0 and rest < 10):
        return cardinal(number)
    if not rest:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {pair(rest)}"


def pair(number: int) -> str:
    """Return the last two digits of a year or a time: 5 is "oh five"."""
    return cardinal(number) if number >= 10 else f"oh {_UNITS[number]}"


def decade(number: int) -> str:
    """Return a decade: 1990 is "nineteen nineties", 1800 "eighteen hundreds", 80 "eighties"."""
    return plural_number(year(number) if number >= 100 else cardinal(number))


def plural_number(words: str) -> str:
    """Return the plural of a number in words: "fifty-two" is "fifty-twos", "eighty" "eighties", "six" "sixes"."""
    if words.endswith("y"):
        return f"{words[:-1]}ies"
    return f"{words}{'es' if words.endswith('x') else 's'}"


def grouped(text: str) -> str:
    """Return a short code in the usual groups: 42 "forty-two", 405 "four oh five", 2490 "twenty-four ninety"."""
    if text.startswith("0") or len(text) > 4:
        return digits(text)
    if len(text) == 3:
        if text.endswith("00"):
            return cardinal(int(text))
        return f"{_UNITS[int(text[0])]} {pair(int(text[1:]))}"
    if len(text) == 4:
        if text.endswith("000"):
            return cardinal(int(text))
        return f"{cardinal(int(text[:2]))} {pair(int(text[2:])) if text[2:] != '00' else 'hundred'}"
    return cardinal(int(text))


def number(text: str) -> str:
    """Return a number as typed in words: "1,234", "3.14", "-2", ".5", "007"."""
    sign = ""
    if text[:1] in "+-":
        sign, text = ("plus " if text[0] == "+" else "minus "), text[1:]
    whole, point, fraction = text.replace(",", "").partition(".")
    words = _whole(whole, fraction) if whole else ""
    if point and fraction:
        words = f"{words} point {digits(fraction)}".lstrip()
    return sign + words


def _whole(text: str, fraction: str) -> str:
    if len(text) > _LONGEST or (text.startswith("0") and len(text) > 1 and not fraction):
        return digits(text)
    return cardinal(int(text))


def is_one(text: str) -> bool:
    """Return whether a noun after the number ``text`` is singular."""
    return text.lstrip("+-") in ("1", "1.0", "1.00")


def plural(text: str, one: str, many: str) -> str:
    """Return the number ``text`` in words with the noun in the right number."""
    return f"{number(text)} {one if is_one(text) else many}"
