"""Generates numbers as people write them: times, dates, prices, telephone numbers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

_WORDS = "two three four five six seven eight nine ten eleven twelve".split()
_MONTHS = "January February March April May June July August September October November December".split()
_HOURS = "one two three four five six seven eight nine ten eleven twelve".split()


def _clock(source: Random) -> str:
    hour, minute = source.randint(1, 12), source.choice((0, 5, 10, 12, 15, 20, 25, 30, 35, 40, 45, 48, 50, 55, 59))
    word = source.choice(_HOURS)
    return source.choice(
        (
            f"{hour}:{minute:02d}",
            f"{hour}:{minute:02d} {source.choice(('a.m.', 'p.m.'))}",
            f"{hour} {source.choice(('a.m.', 'p.m.'))}",
            f"{hour} o'clock",
            f"{word} o'clock",
            f"{source.choice(('half', 'quarter', 'ten', 'twenty'))} past {word}",
            f"{source.choice(('quarter', 'five', 'twenty'))} to {word}",
            f"{word} thirty",
            "noon",
            "midnight",
        )
    )


def _date(source: Random) -> str:
    month, day = source.choice(_MONTHS), source.randint(1, 28)
    return source.choice((f"{month} {day}", f"{month} {_ordinal(day)}", f"the {_ordinal(day)} of {month}"))


def _ordinal(number: int) -> str:
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def _ordinal_text(source: Random) -> str:
    words = "first second third fourth fifth sixth seventh eighth ninth tenth twelfth twentieth".split()
    return source.choice((source.choice(words), _ordinal(source.randint(1, 31))))


def _price(source: Random) -> str:
    unit, whole = source.choice("$$£€"), source.choice((source.randint(1, 20), source.randint(1, 999)))
    return source.choice(
        (
            f"{unit}{whole}",
            f"{unit}{whole}.{source.choice((10, 20, 25, 49, 50, 75, 80, 95, 99))}",
            f"{whole + 1} {source.choice(('dollars', 'pounds', 'euros'))}",
            f"{source.choice(_WORDS)} hundred {source.choice(('dollars', 'pounds', 'euros'))}",
            f"{source.choice(_WORDS)} {source.choice(('dollars', 'pounds', 'euros'))}",
        )
    )


def _large_price(source: Random) -> str:
    amount = source.choice((f"{source.randint(2, 900)}", f"{source.randint(1, 99)}.{source.randint(1, 9)}"))
    return f"{source.choice('$£€')}{amount} {source.choice(('million', 'billion'))}"


def _large(source: Random) -> str:
    return source.choice(
        (
            f"{source.randint(100, 999)}",
            f"{source.randint(1, 99)},{source.randint(0, 999):03d}",
            f"{source.randint(1, 99) * 1000:,}",
            f"{source.randint(2, 90)} thousand",
            f"{source.randint(2, 60)} million",
            f"{source.choice(_WORDS)} {source.choice(('hundred', 'thousand', 'million'))}",
        )
    )


def _percent(source: Random) -> str:
    number = source.randint(1, 99)
    return source.choice((f"{number}%", f"{number} percent", f"{number % 20}.{source.randint(1, 9)}%"))


def _phone(source: Random) -> str:
    return source.choice(
        (f"555-{_digits(source, 4)}", ", ".join(_digits(source, 1) for _ in range(source.randint(5, 7))))
    )


def _digits(source: Random, count: int) -> str:
    return "".join(source.choice("0123456789") for _ in range(count))


def _quantity(source: Random) -> str:
    amount = source.choice(
        (str(source.randint(2, 9) * 50), str(source.randint(2, 12)), source.choice(_WORDS), "half a")
    )
    if amount == "half a":
        return f"half a {source.choice(('cup', 'pound', 'kilo', 'litre', 'teaspoon'))}"
    units = (
        ("grams", "millilitres") if amount.endswith("0") else ("cups", "tablespoons", "teaspoons", "ounces", "pounds")
    )
    return f"{amount} {source.choice(units)}"


def _year(source: Random) -> str:
    return str(source.choice((source.randint(1950, 2030), source.randint(1500, 1949))))


def _long_phone(source: Random) -> str:
    area, middle, last = (_digits(source, count) for count in (3, 3, 4))
    return source.choice(
        (
            f"({area}) {middle}-{last}",
            f"{area}-{middle}-{last}",
            f"+44 20 {_digits(source, 4)} {last}",
            f"+1 {area} {middle} {last}",
        )
    )


def _version(source: Random) -> str:
    return source.choice(("", "v")) + ".".join(str(source.randint(0, 12)) for _ in range(source.choice((2, 3))))


GENERATORS: dict[str, Callable[[Random], str]] = {
    "clock": _clock,
    "date": _date,
    "ordinal": _ordinal_text,
    "price": _price,
    "price_big": _large_price,
    "big": _large,
    "percent": _percent,
    "phone": _phone,
    "digits": lambda source: ", ".join(_digits(source, 1) for _ in range(source.randint(3, 6))),
    "decimal": lambda source: f"{source.randint(0, 60)}.{source.randint(1, 99)}",
    "quantity": _quantity,
    "year": _year,
    "phone_long": _long_phone,
    "version": _version,
    "roman": lambda source: source.choice("II III IV V VI VII VIII IX X XI XII XIV XVI XX".split()),
    "fraction": lambda source: source.choice("1/2 1/3 3/4 2/3 1/4 ½ ¼ ¾ 1½".split()),
    "year_words": lambda source: source.choice(("this year", "next year", "twenty thirty", "nineteen ninety-nine")),
    "few": lambda source: source.choice(_WORDS),
    "small": lambda source: str(source.randint(2, 90)),
    "number_small": lambda source: str(source.choice((source.randint(2, 30), source.randint(2, 130)))),
    "number_medium": lambda source: str(source.randint(40, 999)),
    "room": lambda source: str(source.randint(1, 450)),
    "platform": lambda source: str(source.randint(1, 14)),
    "temperature": lambda source: source.choice(("", "", "minus ")) + str(source.randint(2, 38)),
    "oven": lambda source: str(source.choice((160, 180, 200, 220, 350, 400))),
    "age": lambda source: str(source.randint(3, 95)),
}
"""Slot name -> generator of its text."""
