"""Numbers with units as words: 5 km, 20°C, 16GB, 60 mph, 9.8 m/s², 5'7", 1920x1080, 4K."""

from __future__ import annotations

import re

from server.text.english import numbers
from server.text.english.rules import Rule, alternatives, first_words, rule
from server.text.english.unit_words import NEEDS_SPACE, PER, POWERS, RATES, UNITS
from server.text.patterns import lazy

_NUMBER = rf"(?:{numbers.NUMBER}|\.\d+)"
_FRACTION = r"\d+[ -]\d/\d{1,2}|\d+/\d+|\d*[ ]?[½⅓⅔¼¾⅛⅜⅝⅞]"
_NOT_NOUNS = (
    "and|or|to|in|on|at|of|for|from|with|by|is|was|are|were|per|a|an|the|as|if|but|each|every|more|less|than|later|"
    "earlier|ago|away|below|above|before|after|into|because|until|when|while|which|that"
)
_SIZE_WORDS = "long|high|tall|wide|deep|thick|old|apart|off|down|up|north|south|east|west"
_MEASURE = rf"""
    (?P<sign>(?<![\w)])[-+−±~])?
    (?<![\w.,/:]) (?P<number>{_NUMBER}|{_FRACTION})
    (?:[ ]?(?:-|–|to|x|×)[ ]?(?P<to>\d+[ ]\d/\d{{1,2}}|{_NUMBER})(?:[ ]?[x×][ ]?(?P<depth>{_NUMBER}))?)?
    (?P<space>[ ]|-)?
    (?:
        (?P<unit>{alternatives(UNITS)})
        (?P<power>[²³]|\^[23]|(?<=m)[23])?
        (?:/(?P<per>{alternatives(PER)})(?P<per_power>[²³]|\^?[23])?(?:/(?P<also_per>{alternatives(PER)}))?)?
        (?![\w/°])(?!'\w) (?(per)|(?:\.(?=[ ][a-z\d(]|,))?)
    )
    (?P<noun>(?=[ ](?!(?:{_NOT_NOUNS}|{_SIZE_WORDS})\b)[a-z]{{3}}))?
"""
_DEGREES = rf"""
    (?P<sign>(?<![\w)])[-+−])?
    (?<![\w.,]) (?P<number>{_NUMBER}) (?:[ ]?°?[ ]?[-–][ ]?(?P<below>[-−])?(?P<to>{_NUMBER}))?
    [ ]?(?:°|º|degrees?[ ](?=[CF]\b))(?:[ ]?(?P<scale>[CFKNSEW](?!\w)|celsius|fahrenheit))?
"""
_FEET = r"""
    (?<![\w.]) (?P<feet>\d+) [ ]?(?:'|′|ft\.?|feet)[ ]?
    (?P<inches>\d+(?:\.\d+)?) [ ]?(?:\"|''|″|in(?:ches|\.)?(?!\w)|(?![\w:]))
    (?P<by>[ ]?[x×][ ]?(?=\d))?
"""
_INCHES = rf"""
    (?P<article>\b(?:[Aa]n?|[Tt]he|[Mm]y|[Hh]er|[Hh]is|[Oo]ur|[Tt]heir|[Tt]his|[Tt]hat|[Yy]our)[ ])?
    (?<![\w."])(?:(?P<from>\d{{1,3}})[-–](?!\d/))?(?P<number>{_NUMBER}|{_FRACTION})(?:"|″)(?=[ ]?[A-Za-z.,;)×]|[ ]\d|$)
"""
_FOOT_SIZES = rf"(?<![\w.'])(?P<sides>{_NUMBER}'(?:[ ]?[x×][ ]?{_NUMBER}'){{1,2}})(?!\w)"
_FOOT_ALONE = r"""
    (?<![\w.'])(?P<number>\d+)'
    (?=[ ](?:long|wide|tall|high|deep|apart|above|below
      | from[ ]the[ ](?:edge|wall|ground|top|bottom|floor|ceiling|road|curb|line))\b)
"""
_FOOT_END = r"(?P<verb>(?:\bis|'s|\bare|'m|'re)[ ])(?P<number>[3-7])'(?=[.!?]?\s*$)"
"""She's 5'."""
_VOLTS_AMPS = rf"(?<![\w.])(?P<volts>{_NUMBER})[ ]?V(?P<link>[ ]?[/,@]?[ ]?)(?P<amps>{_NUMBER})[ ]?A(?!\w)"
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
    (?<![\w.,/]) (?P<number>{_FRACTION}|{_NUMBER}) [ ] (?P<unit>{"|".join(_COOKS)})\b\.? (?=[ ](?:{_FOOD})\b)
"""
"""1 t vanilla, 2 c sugar."""
_DOSE = r"""
    (?<![\w.,]) (?P<first>\d+(?:\.\d+)?)[ ]?(?P<unit>mg|mcg|g|ml|mL)
    / (?P<second>\d+(?:\.\d+)?)[ ]?(?P<per>ml|mL|hrs?|h) (?!\w)
"""
"""250mg/5ml."""
_TEMPERATURE = r"""
    (?P<cue>\b(?i:highs?|lows?|temps?|temperature|bake|heat|oven|wash|hit|reach(?:es|ed)?|fever)
      (?:[ ](?:of|at|to|is|was|in[ ]the)){0,2}[ ])?
    (?P<sign>(?<![\w)])[-−])? (?<![\w.,]) (?P<number>\d{1,3}(?:\.\d)?) (?:[ ]?[-–][ ]?(?P<to>\d{1,3}))? (?P<scale>[CF])
    (?: /(?P<other>\d{2,3})(?P<second>[CF]) )? (?![\w'’\-])
"""
"""-2C, Bake at 180C/350F."""
_WEATHER_BEFORE = lazy(
    r"\b(?:[Ii]t['’]s|is|was|be|at|to|around|about|nearly|over|under|below|above|only|still|hit|reache?[ds]?) $"
)
_WEATHER_AFTER = lazy(r" (?:outside|inside|today|tonight|tomorrow|right now|this (?:morning|afternoon|evening|week))\b")
_POUNDS = r"(?<![\w.#])(?P<number>\d{1,4})\#(?P<noun>(?=[ ](?:bag|sack|box|test|line)))?(?=[\s.,;!?]|$)"
"""150#: pounds."""
_CRATE = r"(?<![\w.])(?P<long>\d+)[ ]?L[ ]?[x×][ ]?(?P<wide>\d+)[ ]?W(?:[ ]?[x×][ ]?(?P<high>\d+)[ ]?H)?(?!\w)"
_KARATS = frozenset("9 10 14 18 22 24".split())
_JEWELRY = lazy(r"\b(?:gold|ring|chain|necklace|bracelet|earrings?)\b", re.IGNORECASE)
_RUNS = lazy(r"[ ](?:run|race|walk|PR|PB)\b")
_STONE = r"(?<![\w.])(?P<stone>\d{1,2})[ ]?st\.?[ ](?P<pounds>\d{1,2})[ ]?lbs?\b\.?"
"""14st 3lb."""
_LUMBER = r"(?<![\w.])(?P<width>\d{1,2})x(?P<height>\d{1,2})s(?!\w)"
"""2x4s."""
_FOOT = r"(?<![\w.'])(?P<number>\d+)[′](?!\w)"
_SIZES = rf"""
    (?<![\w.]) (?P<width>{_NUMBER}) [ ]?[x×][ ]? (?P<height>{_NUMBER}) (?:[ ]?[x×][ ]?(?P<depth>{_NUMBER}))?
    (?!\w|\.\d|[\^⁰¹²³⁴-⁹⁻])(?![ ]?=)
"""
_TIMES = frozenset(("second", "minute", "hour"))
_NUMBERED_PLACE = lazy(
    r"(?<!\w)(?:exit|room|gate|apt|apartment|suite|seat|unit|flat|bus|route|highway)[ ]$",
    re.IGNORECASE,
)
"""Places whose numbers may end with a letter: "Exit 27B" is no amount."""
_PLACE = lazy(
    r"\b(?:track|platform|terminal|pier|dock|lane|zone|section|row|level|floor|locker|aisle|coach|block|berth)[ ]$"
)
_SIZES_IN_WORDS = rf"""
    (?<![\w.]) (?P<width>{_NUMBER}) [ ]?×[ ]? (?P<height>{_NUMBER})
    (?=[ -](?:f(?:oo|ee)t|inch(?:es)?|(?:centi|milli|[cm])?m(?:et(?:er|re)s?)?|yards?|miles?|pixels?|grid|matrix|table|
    board|photos?|prints?)\b)
"""
_ARTICLE = lazy(r"(?<!\w)[Aa]n?[ ]$")
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
_INCH_SIZES = rf"""
    (?P<article>\b[Aa]n?[ ])?(?<![\w."])(?P<width>{_NUMBER})(?:"|″)? [ ]?[x×][ ]?
    (?P<height>{_NUMBER})(?:"|″)(?=[\s.,;!?)]|$)
"""
_THOUSANDS = rf"""
    (?<![\w.,$€£]) (?P<number>{numbers.NUMBER}) (?P<scale>[KkMB]|bn) (?P<more>\+)? (?![\w'])
    (?P<noun>(?=[ ][a-z]{{2,}}))?
"""
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
    describes = (
        match["noun"] is not None and _ARTICLE.search(match.string, max(0, match.start() - 3), match.start())
    ) or match["space"] == "-"
    one = describes or _one(match["to"] or text)
    noun = UNITS[unit][0 if one else 1]
    power = (match["power"] or "").lstrip("^")
    if power:
        noun = f"{POWERS[power]} {noun}"
    if match["per"]:
        noun += f" per {_powered(PER[match['per']], (match['per_power'] or '').lstrip('^'))}"
    if match["also_per"]:
        noun += f" per {PER[match['also_per']]}"
    words = _words(text) + _upper(match)
    stop = "." if unit.endswith(".") and _ends_sentence(match) else ""
    return f"{_sign(match['sign'])}{words}{'-' if match['space'] == '-' else ' '}{noun}{stop}"


def _powered(unit: str, power: str) -> str:
    """Return a unit with its power: "second squared", "cubic meter"."""
    if unit in _TIMES:
        return f"{unit} {'squared' if POWERS[power] == 'square' else 'cubed'}" if power else unit
    return f"{POWERS[power]} {unit}" if power else unit


def _is_inches(match: re.Match[str]) -> bool:
    """Return whether "in" after a number is a unit: "2 in wide", not "I was 5 in 1990"."""
    after = match.string[match.end() :]
    return re.match(r"\s(?:wide|long|tall|high|deep|thick|of|x)\b|$", after) is not None or (
        match["to"] is not None and re.match(r"[,;)]", after) is not None
    )


def _ends_sentence(match: re.Match[str]) -> bool:
    return re.match(r"\s+[A-Z]|\s*$", match.string[match.end() : match.end() + 3]) is not None


def _upper(match: re.Match[str]) -> str:
    if not match["to"]:
        return ""
    by = re.search(r"[x×]", match[0][: match.end("to") - match.start()])
    depth = f" by {numbers.number(match['depth'])}" if match["depth"] else ""
    return f" {'by' if by else 'to'} {_words(match['to'])}{depth}"


def _one(text: str) -> bool:
    return numbers.is_one(text) or text in "½⅓⅔¼¾⅛⅜⅝⅞" or re.fullmatch(r"\d+/\d+", text) is not None


def _words(text: str) -> str:
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


def _feet(match: re.Match[str]) -> str:
    by = " by " if match["by"] else ""
    return f"{numbers.number(match['feet'])} foot {numbers.number(match['inches'])}{by}"


def _inches(match: re.Match[str]) -> str:
    if match.string.count('"', 0, match.start()) % 2:
        return match[0]
    article = match["article"] or ""
    describes = article and re.match(
        rf"[ ](?!(?:{_NOT_NOUNS}|{_SIZE_WORDS})\b)[A-Za-z]", match.string[match.end() :][:10]
    )
    start = f"{numbers.number(match['from'])} to " if match["from"] else ""
    return f"{article}{start}{_words(match['number'])} {'inch' if describes or _one(match['number']) else 'inches'}"


def _foot_sizes(match: re.Match[str]) -> str:
    return f"{' by '.join(map(numbers.number, re.findall(_NUMBER, match['sides'])))} feet"


def _volts_amps(match: re.Match[str]) -> str:
    volts, amps = numbers.plural(match["volts"], "volt", "volts"), numbers.plural(match["amps"], "amp", "amps")
    return f"{volts}{' at' if '@' in match['link'] else ','} {amps}"


def _kitchen(match: re.Match[str]) -> str:
    one = _COOKS[match["unit"]]
    return f"{_words(match['number'])} {one if _one(match['number']) else f'{one}s'}"


def _dose(match: re.Match[str]) -> str:
    first, second = UNITS[match["unit"]], UNITS[match["per"]]
    words = numbers.plural(match["first"], *first)
    return f"{words} per {second[0] if match['second'] == '1' else numbers.plural(match['second'], *second)}"


def _is_weather(match: re.Match[str]) -> bool:
    before = _WEATHER_BEFORE.search(match.string, max(0, match.start() - 12), match.start())
    return before is not None and _WEATHER_AFTER.match(match.string, match.end()) is not None


def _temperature(match: re.Match[str]) -> str:
    cue, sign, to, other = (match[name] or "" for name in ("cue", "sign", "to", "other"))
    if not (cue or sign or to or other or _is_weather(match)):
        return match[0]
    words = f"{cue}{_sign(sign)}{numbers.number(match['number'])}" + (f" to {numbers.number(to)}" if to else "")
    words += f" degrees{_SCALES[match['scale'].lower()]}"
    return words + (f", {numbers.number(other)} degrees{_SCALES[match['second'].lower()]}" if other else "")


def _pounds(match: re.Match[str]) -> str:
    return f"{numbers.number(match['number'])} {'pound' if match['noun'] is not None else 'pounds'}"


def _crate(match: re.Match[str]) -> str:
    high = f" by {numbers.number(match['high'])} high" if match["high"] else ""
    return f"{numbers.number(match['long'])} long by {numbers.number(match['wide'])} wide{high}"


def _stone(match: re.Match[str]) -> str:
    pounds = numbers.plural(match["pounds"], "pound", "pounds")
    return f"{numbers.cardinal(int(match['stone']))} stone {pounds}"


def _lumber(match: re.Match[str]) -> str:
    height = numbers.plural_number(numbers.cardinal(int(match["height"])))
    return f"{numbers.cardinal(int(match['width']))} by {height}"


def _inch_sizes(match: re.Match[str]) -> str:
    article = match["article"] or ""
    describes = article and re.match(r"[ ][a-z]", match.string[match.end() : match.end() + 2])
    sides = f"{numbers.number(match['width'])} by {numbers.number(match['height'])}"
    return f"{article}{sides} {'inch' if describes else 'inches'}"


def _sizes(match: re.Match[str]) -> str:
    if " × " in match[0] and not match["depth"]:
        return match[0]
    sides = [side for side in (match["width"], match["height"], match["depth"]) if side]
    return " by ".join(map(_side, sides))


def _side(text: str) -> str:
    return numbers.grouped(text) if len(text) in (3, 4) and text.isdecimal() else numbers.number(text)


def _thousands(match: re.Match[str]) -> str:
    scale = {"k": "thousand", "K": "thousand", "M": "million", "B": "billion", "bn": "billion"}[match["scale"]]
    words = numbers.number(match["number"])
    before = match.string[max(0, match.start() - 12) : match.start()]
    if _NUMBERED_PLACE.search(before) or (match["scale"] == "B" and _PLACE.search(before)):
        return f"{words} {match['scale'].upper()}"
    if match["scale"] == "B" and match["noun"] is None and "." not in match["number"]:
        return f"{words} B"
    if scale == "thousand":
        around = match.string[max(0, match.start() - 16) : match.end() + 24]
        if match["number"] in _KARATS and _JEWELRY.search(around):
            return f"{words} karat"
        before, after = match.string[max(0, match.start() - 6) : match.start()], match.string[match.end() :][:12]
        resolution = match["number"] in ("2", "4", "5", "8") and match["scale"] == "K"
        run = match["number"] in ("5", "10", "15") and _RUNS.match(after)
        described = _RESOLUTION_BEFORE.search(before) and (match["noun"] is None or _RESOLUTION_AFTER.match(after))
        if resolution or run or described:
            return f"{words} K"
    return f"{words} {scale}{' plus' if match['more'] else ''}"


RULES: tuple[Rule, ...] = (
    rule(_KITCHEN, _kitchen, "digit unit"),
    rule(_DOSE, _dose, "digit unit"),
    rule(_TEMPERATURE, _temperature, "digit unit"),
    rule(_POUNDS, _pounds, "#"),
    rule(_CRATE, _crate, "digit unit"),
    rule(_VOLTS_AMPS, _volts_amps, "digit unit"),
    rule(_LUMBER, _lumber, "digit x"),
    rule(_STONE, _stone, "digit letter"),
    rule(_FOOT_SIZES, _foot_sizes, "digit mark"),
    rule(_FOOT_END, lambda match: match["verb"] + numbers.plural(match["number"], "foot", "feet"), "digit mark"),
    rule(_FOOT_ALONE, lambda match: numbers.plural(match["number"], "foot", "feet"), "digit mark"),
    rule(_FEET, _feet, ("digit mark", "ft", "feet")),
    rule(_DEGREES, _degrees, ("°", "º", "degree", "degrees"), ignore_case=True),
    rule(
        r"(?<!\w)(?:[2-6]G|[23]D)(?!\w)", lambda match: f"{numbers.cardinal(int(match[0][0]))} {match[0][1]}", "digit G"
    ),
    rule(_MEASURE, _measure, "digit unit"),
    rule(_INCH_SIZES, _inch_sizes, ("digit x", '" x', '"x', "×")),
    rule(_SIZES, _sizes, "digit x"),
    rule(_SIZES_IN_WORDS, r"\g<width> by \g<height>", "×"),
    rule(_INCHES, _inches, "digit mark"),
    rule(
        r"(?P<article>\b[Aa]n?[ ])(?P<number>\d+)'(?=[ ][a-z])",
        lambda match: f"{match['article']}{numbers.number(match['number'])} foot",
        "digit mark",
    ),
    rule(rf"(?<![\w/])(?:{alternatives(RATES)})(?![\w/])", lambda match: RATES[match[0]], first_words(RATES)),
    rule(_FOOT, lambda match: numbers.plural(match["number"], "foot", "feet"), "′"),
    rule(_RESOLUTIONS, lambda match: f"{numbers.grouped(match['number'])} {match['kind'].upper()}", "digit p"),
    rule(_THOUSANDS, _thousands, "digit K"),
    rule(
        r"(?<=thousand[ ])(?P<unit>mi|lbs?|km|kg|ft|gal)\b\.?",
        lambda match: UNITS[match["unit"]][1],
        ("mi", "lb", "lbs", "km", "kg", "ft", "gal"),
    ),
    rule(r"(?<=\b[Aa][ ])lb\b\.?(?!\w)|(?<=\bper[ ])lb\b\.?(?!\w)", "pound", ("lb",)),
)
