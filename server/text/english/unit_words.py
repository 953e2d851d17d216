"""Units of measurement: their abbreviations, with the singular and the plural in words."""

from __future__ import annotations

_SIMPLE = """
km kilometer|m meter|cm centimeter|mm millimeter|t ton|µF microfarad|μF microfarad|nF nanofarad|pF picofarad
mH millihenry|µm micrometer|μm micrometer|nm nanometer|mi mile|mi. mile|yd yard|yds yard|mpg mile per gallon
kg kilogram|kgs kilogram|g gram|gr gram|mg milligram|µg microgram|μg microgram|mcg microgram|lb pound|lbs pound
lb. pound|lbs. pound|oz ounce|oz. ounce|l liter|L liter|ml milliliter|mL milliliter|cl centiliter|dl deciliter
gal gallon|gal. gallon|qt quart|qt. quart|qts quart|qts. quart|pt. pint|tbsp tablespoon|tbsp. tablespoon|Tbsp tablespoon
tsp teaspoon|tsp. teaspoon|KB kilobyte|kB kilobyte|MB megabyte|GB gigabyte|Gb gigabit|TB terabyte|PB petabyte
KiB kibibyte|MiB mebibyte|GiB gibibyte|TiB tebibyte|W watt|kW kilowatt|MW megawatt|GW gigawatt|kWh kilowatt hour
Wh watt hour|MWh megawatt hour|mAh milliamp hour|Ah amp hour|V volt|kV kilovolt|mV millivolt|mA milliamp
J joule|kJ kilojoule|µA microamp|μA microamp|nA nanoamp|µV microvolt|μV microvolt|µH microhenry|μH microhenry
reb rebound|ast assist|pk pack|Pk pack|PK pack
kcal kilocalorie|cal calorie|N newton|kN kilonewton|Pa pascal|kPa kilopascal|MPa megapascal|hPa hectopascal
Ω ohm|kΩ kilohm|MΩ megohm|ms millisecond|µs microsecond|μs microsecond|ns nanosecond|s second|sec second
sec. second|secs second|min minute|min. minute|mins minute|h hour|hr hour|hr. hour|hrs hour|hrs. hour|wk week
wks week|mo month|mos month|yr year|yrs year|yr. year|yrs. year|px pixel|MP megapixel|ha hectare|hp horsepower
fl. oz. fluid ounce|fl oz fluid ounce|sq. ft. square foot|pcs piece|pc piece|pts point|kn knot|kt knot
ly light year|rpm revolution per minute|RPM revolution per minute|bpm beat per minute|BPM beat per minute
wpm word per minute|fps frame per second|FPS frame per second|mol mole|kB/s kilobyte per second|ct carat
cwt hundredweight|mmol millimole|µmol micromole|μmol micromole|nmol nanomole|pmol picomole|mEq milliequivalent
mK millikelvin|µK microkelvin|μK microkelvin
parsec parsec|kpc kiloparsec|Mpc megaparsec|Gpc gigaparsec|kts knot|ov over|ovs over|nmi nautical mile|nits nit
bd bed|ba bath|BR bedroom|BA bath|MIN minute|MINS minute|HR hour|HRS hour
"""
_IRREGULAR = {
    "Lbs": ("pound", "pounds"),
    "Lbs.": ("pound", "pounds"),
    "Oz": ("ounce", "ounces"),
    "Min.": ("minute", "minutes"),
    "Mins": ("minute", "minutes"),
    "Hrs": ("hour", "hours"),
    "Hrs.": ("hour", "hours"),
    "Pts": ("point", "points"),
    "ft": ("foot", "feet"),
    "ft.": ("foot", "feet"),
    "in": ("inch", "inches"),
    "in.": ("inch", "inches"),
    "″": ("inch", "inches"),
    "hz": ("hertz", "hertz"),
    "Hz": ("hertz", "hertz"),
    "kHz": ("kilohertz", "kilohertz"),
    "MHz": ("megahertz", "megahertz"),
    "GHz": ("gigahertz", "gigahertz"),
    "dB": ("decibel", "decibels"),
    "dBA": ("decibel A", "decibels A"),
    "mph": ("mile per hour", "miles per hour"),
    "MPH": ("mile per hour", "miles per hour"),
    "kph": ("kilometer per hour", "kilometers per hour"),
    "kmh": ("kilometer per hour", "kilometers per hour"),
    "VAC": ("volt A C", "volts A C"),
    "VDC": ("volt D C", "volts D C"),
    "V AC": ("volt A C", "volts A C"),
    "V DC": ("volt D C", "volts D C"),
    "psi": ("P S I", "P S I"),
    "PSI": ("P S I", "P S I"),
    "ppm": ("part per million", "parts per million"),
    "dpi": ("dot per inch", "dots per inch"),
    "kbps": ("kilobit per second", "kilobits per second"),
    "Kbps": ("kilobit per second", "kilobits per second"),
    "Mbps": ("megabit per second", "megabits per second"),
    "Gbps": ("gigabit per second", "gigabits per second"),
    "kb/s": ("kilobit per second", "kilobits per second"),
    "Kb/s": ("kilobit per second", "kilobits per second"),
    "Mb/s": ("megabit per second", "megabits per second"),
    "MBps": ("megabyte per second", "megabytes per second"),
    "ft-lb": ("foot pound", "foot pounds"),
    "ft-lbs": ("foot pound", "foot pounds"),
    "lb-ft": ("pound foot", "pound feet"),
    "lb·ft": ("pound foot", "pound feet"),
    "N·m": ("newton meter", "newton meters"),
    "Nm": ("newton meter", "newton meters"),
    "cu ft": ("cubic foot", "cubic feet"),
    "cu. ft.": ("cubic foot", "cubic feet"),
    "cu in": ("cubic inch", "cubic inches"),
    "cu. in.": ("cubic inch", "cubic inches"),
    "sq ft": ("square foot", "square feet"),
    "sqft": ("square foot", "square feet"),
    "sqm": ("square meter", "square meters"),
    "sq. ft.": ("square foot", "square feet"),
    "sq in": ("square inch", "square inches"),
    "sq. in.": ("square inch", "square inches"),
    "sq mi": ("square mile", "square miles"),
    "sq m": ("square meter", "square meters"),
    "sq km": ("square kilometer", "square kilometers"),
    "mmHg": ("millimeter of mercury", "millimeters of mercury"),
    "inHg": ("inch of mercury", "inches of mercury"),
    "hp": ("horsepower", "horsepower"),
    "kr": ("krone", "kroner"),
    "zł": ("zloty", "zlotys"),
    "mths": ("month", "months"),
    "K": ("kelvin", "kelvins"),
    "lx": ("lux", "lux"),
    "cc": ("C C", "C C"),
    "c.": ("cup", "cups"),
    "doz": ("dozen", "dozen"),
    "doz.": ("dozen", "dozen"),
    "bps": ("basis point", "basis points"),
    "kyr": ("thousand year", "thousand years"),
    "Myr": ("million year", "million years"),
    "Gyr": ("billion year", "billion years"),
}


def _read() -> dict[str, tuple[str, str]]:
    units = {}
    for line in _SIMPLE.split("\n"):
        for entry in filter(None, line.split("|")):
            abbreviation, one = _cut(entry)
            head, per, tail = one.partition(" per ")
            units[abbreviation] = (one, f"{head}s{per}{tail}")
    return units | _IRREGULAR


def _cut(entry: str) -> tuple[str, str]:
    """Return the abbreviation and the unit of an entry; an abbreviation may contain a space."""
    for known in ("fl. oz. ", "fl oz ", "sq. ft. "):
        if entry.startswith(known):
            return known.strip(), entry[len(known) :]
    abbreviation, _, one = entry.partition(" ")
    return abbreviation, one


UNITS = _read()
"""Abbreviation -> singular and plural."""
NEEDS_SPACE = {"K"}
"""Abbreviations that are units only after a space: "4 K" is a temperature, "4K" a resolution."""
PER = {
    "h": "hour",
    "hr": "hour",
    "hour": "hour",
    "night": "night",
    "meal": "meal",
    "game": "game",
    "s": "second",
    "sec": "second",
    "min": "minute",
    "day": "day",
    "d": "day",
    "wk": "week",
    "week": "week",
    "mo": "month",
    "month": "month",
    "yr": "year",
    "year": "year",
    "kg": "kilogram",
    "lb": "pound",
    "g": "gram",
    "mg": "milligram",
    "L": "liter",
    "l": "liter",
    "mL": "milliliter",
    "ml": "milliliter",
    "dL": "deciliter",
    "dl": "deciliter",
    "km": "kilometer",
    "m": "meter",
    "cm": "centimeter",
    "mi": "mile",
    "gal": "gallon",
    "person": "person",
    "ha": "hectare",
    "side": "side",
    "serving": "serving",
    "dose": "dose",
    "mol": "mole",
    "mmol": "millimole",
    "in": "inch",
}
"""Units that may follow a unit and a slash: km/h."""
RATES = {
    "km/h": "kilometers per hour",
    "kph": "kilometers per hour",
    "mph": "miles per hour",
    "m/s": "meters per second",
    "kB/s": "kilobytes per second",
    "MB/s": "megabytes per second",
    "GB/s": "gigabytes per second",
    "Mbps": "megabits per second",
    "Gbps": "gigabits per second",
}
"""Units that are read in words without a number: "the speed in km/h"."""
RESOLUTIONS = "240|360|480|540|576|720|1080|1440|2160|4320"
"""Heights of a video in lines: 1080p is no amount of pence."""
POWERS = {"²": "square", "2": "square", "³": "cubic", "3": "cubic"}
