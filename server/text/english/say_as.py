"""The ``say-as`` element of SSML in English."""

from __future__ import annotations

import re

from server.text.english import dates, letters, numbers, times, web
from server.text.english.rules import Rules
from server.text.patterns import lazy

_DATE_PARTS = lazy(r"\d+")
_LONGEST = 1000
_TIMES, _DATES = Rules(*times.RULES), Rules(*dates.RULES)


def say_as(text: str, kind: str, form: str) -> str:
    """Return ``text`` in words for SSML's ``interpret-as`` (kind) and ``format`` (form). Unchanged for other kinds."""
    if len(text) > _LONGEST:
        return text
    if kind in ("characters", "spell-out", "verbatim", "letters"):
        return " ".join(web.SYMBOLS.get(each) or letters.spell(each) for each in text if not each.isspace())
    if kind == "digits":
        return " ".join(
            numbers.digits(each) if each.isdecimal() else each for each in re.findall(r"\d+|[^\W\d]+", text)
        )
    if kind == "telephone":
        return ", ".join(letters.spell(" ".join(group)) for group in re.findall(r"[^\W_]+", text))
    if kind in ("cardinal", "number", "ordinal"):
        return _number(text, kind)
    if kind == "date":
        return _date(text, form)
    if kind == "time":
        return _TIMES.apply(text)
    if kind in ("expletive", "bleep"):
        return "beep"
    return text


def _number(text: str, kind: str) -> str:
    match = re.fullmatch(r"\s*([-+]?\d{1,3}(?:,\d{3})+|[-+]?\d{1,30})(\.\d{1,30})?\s*", text)
    if match is None:
        return text
    if kind == "ordinal":
        return numbers.to_ordinal(numbers.number(match[1].lstrip("+").lstrip("0") or "0"))
    return numbers.number(match[1] + (match[2] or ""))


def _date(text: str, form: str) -> str:
    """Return a date in words. form: the order of its parts, for example "dmy"."""
    parts = _DATE_PARTS.findall(text)
    order = form.replace("yyyy", "y").replace("mm", "m").replace("dd", "d")
    if len(parts) != len(order) or sorted(order) != sorted(set(order)) or set(order) - set("dmy"):
        return _DATES.apply(text)
    found = {key: int(part) for key, part in zip(order, parts, strict=True)}
    month, day, year = found.get("m"), found.get("d"), found.get("y")
    if (month is not None and not 1 <= month <= 12) or (day is not None and not 1 <= day <= 31) or (year or 0) > 9999:
        return text
    words = dates.MONTHS[month - 1] if month else ""
    if day:
        words = f"{words} {numbers.ordinal(day)}".strip()
    return (f"{words}, {numbers.year(year)}" if words else numbers.year(year)) if year is not None else words
