"""Numbers with units as words: 5 km, 20°C, 16GB, 60 mph, 9.8 m/s², 250mg/5ml, 4K."""

from __future__ import annotations

import re

from server.text.english import attributive, numbers
from server.text.english.rules import Rule, alternatives, beside, first_words, rule
from server.text.english.unit_words import NEEDS_SPACE, PER, POWERS, RATES, UNITS
from server.text.patterns import lazy

NUMBER = rf"(?:{numbers.NUMBER}|\.\d+)"
FRACTION = r"\d+[ -]\d/\d{1,2}|\d+/\d+|\d*[ ]?[½⅓⅔¼¾⅛⅜⅝⅞]"
_MEASURE = rf"""
    (?=[-+−±~.\d½⅓⅔¼¾⅛⅜⅝⅞])
    (?P<sign>(?<![\w)])[-+−±~])?
    (?<![\w.,/:]) (?P<number>{NUMBER}|{FRACTION})
    (?:[ ]?(?:-|–|to|x|×)[ ]?(?P<to>\d+[ ]\d/\d{{1,2}}|{NUMBER})(?:[ ]?[x×][ ]?(?P<depth>{NUMBER}))?)?
    (?P<space>[ ]|-)?
    (?:
        (?P<unit>{alternatives(UNITS)})
        (?P<power>[²³]|\^[23]|(?<=m)[23])?
        (?:/(?P<per>{alternatives(PER)})(?P<per_power>[²³]|\^?[23])?(?:/(?P<also_per>{alternatives(PER)}))?)?
        (?![\w/°])(?!'\w)(?!(?<=[ ][A-Za-z])-(?!long|high|wide|deep|tall|thick)\w) (?(per)|(?:\.(?=[ ][a-z\d(]|,))?)
    )
"""
_DEGREES = rf"""
    (?P<sign>(?<![\w)])[-+−])?
    (?<![\w.,]) (?P<number>{NUMBER}) (?:[ ]?°?[ ]?[-–][ ]?(?P<below>[-−])?(?P<to>{NUMBER}))?
    [ ]?(?:°|º|degrees?[ ](?=[CF]\b))(?:[ ]?(?P<scale>[CFKNSEW](?!\w)|celsius|fahrenheit))?
"""
_VOLTS_AMPS = rf"(?<![\w.])(?P<volts>{NUMBER})[ ]?V(?P<link>[ ]?[/,@]?[ ]?)(?P<amps>{NUMBER})[ ]?A(?!\w)"
_FOOD = (
    "vanilla|sugar|butter|flour|milk|cream|water|oil|salt|pepper|vinegar|honey|cheese|rice|broth|stock|baking|brown|white|"
    "chopped|diced|grated|shredded|soy|lemon|lime|olive|vegetable|cinnamon|ginger|garlic|parsley|oats|raisins|nuts|walnuts|"
    "pecans|cocoa|chocolate|yogurt|mayo|ketchup|mustard|sour|heavy|warm|cold|cooked|ground|dried|fresh|melted|packed|"
    "powdered|maple|peanut|cornstarch|yeast|juice|beans|corn|tomato(?:es)?|onions?|celery|carrots?|blueberries|strawberries"
)
_COOKS = {
    "t": "teaspoon",
    "T": "tablespoon",
    "Tbs": "tablespoon",
    "tbs": "tablespoon",
    "c": "cup",
    "C": "cup",
    "pt": "pint",
}
_KITCHEN = rf"""
    (?=[\d.½⅓⅔¼¾⅛⅜⅝⅞])
    (?<![\w.,/]) (?P<number>{FRACTION}|{NUMBER}) [ ]? (?P<unit>{"|".join(_COOKS)})\b\.? (?=[ ](?:{_FOOD})\b)
"""
"""1 t vanilla, 2 c sugar."""
_DOSE = r"""
    (?<![\w.,]) (?P<first>\d+(?:\.\d+)?)[ ]?(?P<unit>mg|mcg|g|ml|mL)
    / (?P<second>\d+(?:\.\d+)?)[ ]?(?P<per>ml|mL|hrs?|h) (?!\w)
"""
"""250mg/5ml."""
_TEMPERATURE = r"""
    (?P<cue>\b(?i:highs?|lows?|temps?|temperature|bake|(?:pre)?heat|roast|oven|wash|hit|reach(?:es|ed)?|fever)
      (?:[ ](?:of|at|to|is|was|in[ ]the)){0,2}[ ])?
    (?P<sign>(?<![\w)])[-−])? (?<![\w.,]) (?P<number>\d{1,3}(?:\.\d)?) (?:[ ]?[-–][ ]?(?P<to>\d{1,3}))?
    (?P<space>[ ])? (?P<scale>[CF])
    (?: /(?P<other>\d{2,3})[ ]?(?P<second>[CF]) )? (?![\w'’\-])
"""
"""-2C, Bake at 180C/350F."""
_FEWEST_DIGITS = 2
"""Minimum length of a temperature before a scale with a space: "200 C". "High 5 C" is none."""
_WEATHER_BEFORE = lazy(
    r"\b(?:[Ii]t['’]s|is|was|be|at|to|around|about|nearly|over|under|below|above|only|still|hit|reache?[ds]?) $"
)
_WEATHER_AFTER = lazy(r" (?:outside|inside|today|tonight|tomorrow|right now|this (?:morning|afternoon|evening|week))\b")
_POUNDS = r"(?<![\w.#])(?P<number>\d{1,4})\#(?P<noun>(?=[ ](?:bag|sack|box|test|line)))?(?=[\s.,;!?]|$)"
"""150#: pounds."""
_KARATS = frozenset("9 10 14 18 22 24".split())
_JEWELRY = lazy(r"\b(?:gold|ring|chain|necklace|bracelet|earrings?)\b", re.IGNORECASE)
_RUNS = lazy(r"[ ](?:run|race|walk|PR|PB)\b")
_STONE = r"(?<![\w.])(?P<stone>\d{1,2})[ ]?st\.?[ ](?P<pounds>\d{1,2})[ ]?lbs?\b\.?"
"""14st 3lb."""
_BYTES = frozenset("KB kB MB GB TB PB KiB MiB GiB TiB".split())
_LARGEST_DENOMINATOR = 4
_POWERS_OF_TWO = frozenset(str(1 << bits) for bits in range(3, 11))
_USED = lazy(r"\b(?:us(?:e|es|ed|ing|age)|free|full|allocated|available|left|RAM:|[Mm]emory:)")
_ASTRONOMY = lazy(
    r"\b(?:stars?|stellar|galax\w+|clusters?|nebulae?|parsecs?|Earth|Sun|Milky Way|light[- ]years?|ly|AU|redshift)\b"
)
"""Words beside which "pc" is a parsec and not a piece."""
_PAIR = rf"""
    (?<=[\d½⅓⅔¼¾⅛⅜⅝⅞])(?P<space>[ ]?)(?P<unit>{alternatives(UNITS)})(?:[ ]?/[ ]?|(?P<to>[-–]))
    (?=[\d½¼¾⅓⅔][\d.,]{{0,6}}[ ]?[½¼¾⅓⅔]?[ ]?(?:{alternatives(UNITS)})(?![\w/]))
"""
"""The first of two amounts: 250g/9oz, 5km-10km."""
_VIDEO = r"""
    (?<![\w.,]) (?P<size>[248]K|\d{3,4}[pi])
    (?: [ ]?[/@][ ]?(?=\d{2,3}(?:\.\d+)?[ ]?(?:Hz|fps|FPS)(?!\w)) | (?P<rate>24|25|30|50|60|120)(?!\w) )
"""
"""4K/120Hz, 1080p60."""
_PERIODS = {"d": ("day", "days"), "w": ("week", "weeks"), "y": ("year", "years")}
_TIMES = frozenset(("second", "minute", "hour"))
_NUMBERED_PLACE = lazy(
    r"(?<!\w)(?:exit|room|gate|apt|apartment|suite|seat|unit|flat|bus|route|highway|class|form|year|team|group)[ ]$",
    re.IGNORECASE,
)
"""Words whose numbers may end with a letter: "Exit 27B" and "class 4B" are no amounts."""
_LETTER_BEFORE = lazy(
    r"(?:\d|(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|teen|ty) )A,? (?:and |or )?$"
)
"""Seats 22A and 22B."""
_PLACE = lazy(
    r"\b(?:track|platform|terminal|pier|dock|lane|zone|section|row|level|floor|locker|aisle|coach|block|berth)[ ]$"
)
_SCALES = {
    "c": " Celsius",
    "f": " Fahrenheit",
    "k": " Kelvin",
    "n": " north",
    "s": " south",
    "e": " east",
    "w": " west",
}
_RESOLUTIONS = r"(?<![\w.,])(?P<number>\d{3,4})(?P<kind>p|i)(?!\w)"
_THOUSANDS = rf"""
    (?<![\w.,$€£]) (?P<number>{numbers.NUMBER}) (?P<scale>[KkMB]|bn) (?P<more>\+)? (?![\w'])
    (?P<noun>(?=[ ][a-z]{{2,}}))?
"""
_COMPANY_AFTER = lazy(r"'s\b|[ ](?:makes?|made|sells?|sa(?:id|ys)|announced|tape|masks?|respirators?)\b")
"""Words after the company 3M."""
_RESOLUTION_BEFORE = lazy(r"(?:\b[Aa]n?|\bthe|\bin|first|last|final|next|each|every)\s$")
_RESOLUTION_AFTER = lazy(
    r"[ ](?:monitor|video|tv|resolution|display|screen|ultra|run|race|camera|movie|gold|and|in|at|for)"
)


def _measure(match: re.Match[str]) -> str:
    text, unit = match["number"], match["unit"]
    if unit in NEEDS_SPACE and match["space"] != " ":
        return match[0]
    if unit == "mmHg" and "/" in text:  # a blood pressure
        over, under = text.split("/")
        return f"{numbers.cardinal(int(over))} over {numbers.cardinal(int(under))} {UNITS[unit][1]}"
    if unit == "in" and (match.string[match.end() :][:1] == "-" or (match["space"] == " " and not _is_inches(match))):
        return match[0]
    if unit == "K" and _RUNS.match(match.string, match.end()):
        return match[0]
    if unit == "BA" and "BR" not in match.string:
        return match[0]
    if unit == "pc" and ("." in text or _ASTRONOMY.search(match.string)):
        unit = "parsec"
    describes = match["space"] == "-" or attributive.measure(match.string, *match.span(), unit)
    one = describes or is_one(match["to"] or text)
    between = _between(unit, text, match.string)
    noun = UNITS[unit][0 if one and not between else 1]
    power = (match["power"] or "").lstrip("^")
    if power:
        noun = f"{POWERS[power]} {noun}"
    if match["per"]:
        noun += f" per {_powered(PER[match['per']], (match['per_power'] or '').lstrip('^'))}"
    if match["also_per"]:
        noun += f" per {PER[match['also_per']]}"
    words = between or in_words(text) + _upper(match)
    stop = "." if unit.endswith(".") and _ends_sentence(match) else ""
    return f"{_sign(match['sign'])}{words}{'-' if match['space'] == '-' else ' '}{noun}{stop}"


def _between(unit: str, text: str, around: str) -> str:
    """Return memory in use as "twelve of sixteen", and two options as "fifty or sixty". Fractions give ""."""
    top, slash, bottom = text.partition("/")
    if not slash or not (top.isdecimal() and bottom.isdecimal()):
        return ""
    if unit.endswith("Hz"):
        return f"{numbers.number(top)} or {numbers.number(bottom)}"
    used = unit in _BYTES and _USED.search(around) is not None
    if unit in _BYTES and not used and top in _POWERS_OF_TWO and bottom in _POWERS_OF_TWO:
        return f"{numbers.number(top)} or {numbers.number(bottom)}"
    if unit in _BYTES and int(bottom) > _LARGEST_DENOMINATOR and int(top) <= int(bottom):
        return f"{numbers.number(top)} of {numbers.number(bottom)}"
    return ""


def _powered(unit: str, power: str) -> str:
    """Return a unit with its power: "second squared", "cubic meter"."""
    if unit in _TIMES:
        return f"{unit} {'squared' if POWERS[power] == 'square' else 'cubed'}" if power else unit
    return f"{POWERS[power]} {unit}" if power else unit


def _is_inches(match: re.Match[str]) -> bool:
    """Return whether "in" after a number is a unit: "2 in wide", not "I was 5 in 1990"."""
    after = match.string[match.end() :]
    return re.match(r"\s(?:wide|long|tall|high|deep|thick|apart|of|x)\b|$", after) is not None or (
        match["to"] is not None and re.match(r"[,;)]", after) is not None
    )


def _ends_sentence(match: re.Match[str]) -> bool:
    return re.match(r"[\"')\]]{0,2}(?:\s+[A-Z]|\s*$)", match.string[match.end() : match.end() + 5]) is not None


def _upper(match: re.Match[str]) -> str:
    if not match["to"]:
        return ""
    by = re.search(r"[x×]", match[0][: match.end("to") - match.start()])
    depth = f" by {numbers.number(match['depth'])}" if match["depth"] else ""
    return f" {'by' if by else 'to'} {in_words(match['to'])}{depth}"


def is_one(text: str) -> bool:
    """Return whether a unit after the number ``text`` is singular."""
    return numbers.is_one(text) or text in "½⅓⅔¼¾⅛⅜⅝⅞" or re.fullmatch(r"\d+/\d+", text) is not None


def in_words(text: str) -> str:
    """Return a number or a fraction as typed in words."""
    from server.text.english.fractions import mixed

    return mixed(text.replace("-", " ")) if re.search(r"[/½⅓⅔¼¾⅛⅜⅝⅞]", text) else numbers.number(text)


def _sign(sign: str | None) -> str:
    return {"-": "minus ", "−": "minus ", "+": "plus ", "±": "plus or minus ", "~": "about "}.get(sign or "", "")


def _degrees(match: re.Match[str]) -> str:
    last = match["to"] or match["number"]
    words = numbers.number(match["number"])
    words += f" to {'minus ' if match['below'] else ''}{numbers.number(match['to'])}" if match["to"] else ""
    noun = "degree" if numbers.is_one(last) else "degrees"
    scale = _SCALES.get((match["scale"] or "")[:1].lower(), "")
    return f"{_sign(match['sign'])}{words} {noun}{scale}"


def _volts_amps(match: re.Match[str]) -> str:
    volts, amps = numbers.plural(match["volts"], "volt", "volts"), numbers.plural(match["amps"], "amp", "amps")
    return f"{volts}{' at' if '@' in match['link'] else ','} {amps}"


def _kitchen(match: re.Match[str]) -> str:
    one = _COOKS[match["unit"]]
    return f"{in_words(match['number'])} {one if is_one(match['number']) else f'{one}s'}"


def _dose(match: re.Match[str]) -> str:
    first, second = UNITS[match["unit"]], UNITS[match["per"]]
    words = numbers.plural(match["first"], *first)
    return f"{words} per {second[0] if match['second'] == '1' else numbers.plural(match['second'], *second)}"


def _is_weather(match: re.Match[str]) -> bool:
    before = _WEATHER_BEFORE.search(match.string, max(0, match.start() - 12), match.start())
    return before is not None and _WEATHER_AFTER.match(match.string, match.end()) is not None


def _is_fever(match: re.Match[str]) -> bool:
    """Return whether this is the temperature of a person: 98.6F."""
    low, high = (93, 109) if match["scale"] == "F" else (34, 43)
    return "." in match["number"] and low < float(match["number"]) < high


def _temperature(match: re.Match[str]) -> str:
    cue, sign, to, other = (match[name] or "" for name in ("cue", "sign", "to", "other"))
    written = not match["space"] and (sign or to or other)
    if match["space"] and len(match["number"]) < _FEWEST_DIGITS:
        return match[0]
    if not (cue or written or _is_weather(match) or _is_fever(match)):
        return match[0]
    words = f"{cue}{_sign(sign)}{numbers.number(match['number'])}" + (f" to {numbers.number(to)}" if to else "")
    words += f" degrees{_SCALES[match['scale'].lower()]}"
    return words + (f", {numbers.number(other)} degrees{_SCALES[match['second'].lower()]}" if other else "")


def _pounds(match: re.Match[str]) -> str:
    return f"{numbers.number(match['number'])} {'pound' if match['noun'] is not None else 'pounds'}"


def _video(match: re.Match[str]) -> str:
    size = match["size"]
    words = f"{numbers.grouped(size[:-1])} {size[-1].upper()}"
    return f"{words} {match['rate']}" if match["rate"] else f"{words} at "


def _stone(match: re.Match[str]) -> str:
    pounds = numbers.plural(match["pounds"], "pound", "pounds")
    return f"{numbers.cardinal(int(match['stone']))} stone {pounds}"


def _thousands(match: re.Match[str]) -> str:
    scale = {"k": "thousand", "K": "thousand", "M": "million", "B": "billion", "bn": "billion"}[match["scale"]]
    words = numbers.number(match["number"])
    before, after = match.string[max(0, match.start() - 12) : match.start()], match.string[match.end() :][:12]
    places = (_NUMBERED_PLACE, _PLACE, _LETTER_BEFORE) if match["scale"] == "B" else (_NUMBERED_PLACE,)
    if match[0] == "3M" and _COMPANY_AFTER.match(after):
        return f"{words} M"
    if any(place.search(before) for place in places):
        return f"{words} {match['scale'].upper()}"
    if match["scale"] == "B" and match["noun"] is None and "." not in match["number"]:
        return f"{words} B"
    if scale == "thousand":
        around = match.string[max(0, match.start() - 16) : match.end() + 24]
        if match["number"] in _KARATS and _JEWELRY.search(around):
            return f"{words} karat"
        resolution = match["number"] in ("2", "4", "5", "8") and match["scale"] == "K"
        run = match["number"] in ("5", "10", "15") and _RUNS.match(after)
        described = _RESOLUTION_BEFORE.search(before) and (match["noun"] is None or _RESOLUTION_AFTER.match(after))
        if resolution or run or described:
            return f"{words} K"
    return f"{words} {scale}{' plus' if match['more'] else ''}"


_HIGH_LOW = r"""
    (?<![\w.])H:?[ ]?(?P<high>[-−]?\d{1,3}°)(?P<between>[FC]?[ ,/|]{1,3})L:?[ ]?(?=[-−]?\d{1,3}°)
"""
"""H 78° L 61°."""

RULES: tuple[Rule, ...] = (
    rule(r"\b[Hh]i(?=[ ]-?\d{1,3}(?:°|[,;/][ ]?[Ll]o\b))", "high", ("hi",)),
    rule(r"\b[Ll]o(?=[ ]-?\d{1,3}(?:[°,;.]|\s*$))", "low", ("lo",)),
    rule(_HIGH_LOW, r"high \g<high>\g<between>low ", "°"),
    rule(_KITCHEN, _kitchen, (*beside("", "tTcC"), "tbs", "pt")),
    rule(_DOSE, _dose, "unit/digit"),
    rule(_TEMPERATURE, _temperature, "digit C"),
    rule(_POUNDS, _pounds, "#"),
    rule(_VOLTS_AMPS, _volts_amps, beside("", "V")),
    rule(_VIDEO, _video, ("digit p", r"\dK")),
    rule(
        _PAIR,
        lambda match: f"{match['space']}{match['unit']}{' to' if match['to'] else ','} ",
        ("unit/digit", "unit-digit"),
    ),
    rule(_STONE, _stone, "digit st"),
    rule(_DEGREES, _degrees, ("°", "º", "degree", "degrees"), ignore_case=True),
    rule(
        r"(?<![\w.])(?:[2-6]G|[23]D)\b", lambda match: f"{numbers.cardinal(int(match[0][0]))} {match[0][1]}", "digit G"
    ),
    rule(_MEASURE, _measure, "digit unit"),
    rule(rf"(?<![\w/])(?:{alternatives(RATES)})(?![\w/])", lambda match: RATES[match[0]], first_words(RATES)),
    rule(_RESOLUTIONS, lambda match: f"{numbers.grouped(match['number'])} {match['kind'].upper()}", "digit p"),
    rule(_THOUSANDS, _thousands, "digit K"),
    rule(
        r"(?P<scale>\b(?:thousand|million|billion|trillion)[ ])(?P<unit>mi|lbs?|km|kg|ft|gal|[GT]B|[MG]W|kWh)\b\.?",
        lambda match: match["scale"] + UNITS[match["unit"]][1],
        ("mi", "lb", "lbs", "km", "kg", "ft", "gal", "gb", "tb", "mw", "gw", "kwh"),
    ),
    rule(
        r"(?<![\w.,])(?P<number>\d{1,3})[ ]?(?P<unit>[dwy])(?=[ ](?:ago|left|old|later)\b)",
        lambda match: numbers.plural(match["number"], *_PERIODS[match["unit"]]),
        ("ago", "left", "old", "later"),
    ),
    rule(
        r"(?<=\d[ -])pt(?=[ ](?:fonts?|type|text|conversion|shots?|shooting|lead|deficit|game|line|arial|helvetica)\b)",
        "point",
        ("pt",),
        ignore_case=True,
    ),
    rule(r"(?<=\b[Aa][ ])lb\b\.?(?!\w)|(?<=\bper[ ])lb\b\.?(?!\w)", "pound", ("lb",)),
)
