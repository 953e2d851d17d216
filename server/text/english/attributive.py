"""Amounts and measures that describe a noun, and so are singular: a 5 km run, a 12V battery, the $2B trade deal."""

from __future__ import annotations

import re

from server.text.english import numbers
from server.text.english.rules import Rule, beside, rule
from server.text.patterns import lazy

NOT_NOUNS = (
    "and|or|to|in|on|at|of|for|from|with|by|is|was|are|were|per|a|an|the|as|if|but|each|every|more|less|than|later|"
    "earlier|ago|away|below|above|before|after|into|because|until|when|while|which|that"
)
SIZE_WORDS = "long|high|tall|wide|deep|thick|old|apart|off|down|up|north|south|east|west"
_ARTICLE = lazy(r"(?<!\w)[Aa]n?[ ]$")
_DETERMINER = lazy(r"(?:\b(?:an?|the|its|their|my|your|his|her|our|this|that|new)|'s)[ ]$", re.IGNORECASE)
_STAYS_PLURAL = lazy(r" |\d(?:m?[gl]|mL|[cd]l|oz|tsp|tbsp)$")
"""A measure that is plural after "the", because it has a space or is one of a substance: "the 500g flour"."""
_NOUN = lazy(rf"[ ](?!(?:{NOT_NOUNS}|{SIZE_WORDS})\b)(?:[a-z]{{3}}|[A-Z][\w-])")
_NOT_THE_NOUN = (
    "across|again|alone|along|also|are|back|behind|between|beyond|came|can|comes?|costs?|could|counts?|did|does|during|"
    "equals|extra|feels?|felt|first|further|gets?|goes|had|has|have|helps?|includes|just|lasts?|left|like|lost|makes?|may|"
    "means?|might|must|myself|not|only|over|remaining|run|seem(?:s|ed)?|she|should|starts?|takes?|there|they|this|through|"
    "today|together|tomorrow|tonight|took|total|towards?|under|went|who|will|within|without|worth|would|yesterday|you"
)
_THE_NOUN = lazy(rf"[ ](?!(?:{NOT_NOUNS}|{SIZE_WORDS}|{_NOT_THE_NOUN}|\w+(?:ed|ly))\b)[a-z]{{3}}")
"""What another measure describes after "the": "the 1.2kg chicken"."""
_KINDS = (
    "external|internal|portable|hard|flash|thumb|USB|SD|micro|memory|lithium|lead[ -]acid|car|garden|extension|power"
    "|water|gas|gaming|curved|charity|steel|plastic|cast[ -]iron|diesel|petrol|drill|speed|extended[ -]release|wall"
)
"""Words between a measure and the thing that it describes: "a 2TB external drive"."""
_THINGS = (
    "adapters?|adaptors?|apartments?|bags?|bands?|barrels?|batter(?:y|ies)|beams?|bits?|boards?|boats?|bolts?|bottles?"
    "|boxe?s?|breakers?|cameras?|films?|prints?|buckets?|bulbs?|burgers?|cables?|cans?|capsules?|cards?|cartons?|ceilings?|chargers?|circuits?|condos?"
    "|containers?|cords?|cylinders?|dash|detours?|diesel|displays?|drills?|drives?|dumbbells?|engines?|fences?|fields?|freestyle"
    "|fuses?|gusts?|heaters?|hikes?|homes?|hoses?|houses?|hurdles|hybrid|injections?|jars?|jugs?|kettlebells?|kegs?"
    "|ladders?|lamps?|lens(?:es)?|limits?|loops?|lots?|models?|modules?|monitors?|motors?|nails?|outlets?|packs?"
    "|packages?|panels?|pills?|pipes?|pistols?|planks?|plates?|poles?|pots?|processors?|races?|radius|relays?|rifles?|rolls?"
    "|roasts?|ropes?|runs?|sacks?|screens?|screws?|sharks?|sidewalks?|subs?|skillets?|snakes?|sockets?|sprints?|steaks?|sticks?"
    "|SSDs?|HDDs?|tablets?|tanks?|tins?|trailers?|treks?|trees?|trucks?|tubes?|tubs?|turbos?|turkeys?|TVs?|V(?:6|8|10|12)|M(?:ax|AX)"
    "|servings?|portions?|balls?|vials?|vinyl|walks?|walls?|waves?|winds?|wires?|wrench(?:es)?|yachts?|zones?"
)
"""Things that a measure describes also without an article. None is a substance: "250 ml water" has milliliters."""
_THING = lazy(rf"[ ](?:(?:{_KINDS})[ ])?(?:{_THINGS})(?!\w|'\w)")
_CONTAINER = lazy(
    r"\)[ ](?:cans?|pkgs?|packages?|packets?|jars?|box(?:es)?|bags?|bottles?|containers?|blocks?|tins?|sticks?"
    r"|envelopes?|cartons?|tubs?|tubes?|loa(?:f|ves)|steaks?|fillets?|bars?)\b"
)
"""What a measure in brackets describes: 1 (14 oz.) can."""
_ELECTRIC = "fuse breaker circuit outlet socket plug charger".split()
_LASTING = (
    "clips?|commutes?|contracts?|countdown|deadlines?|flights?|intervals?|layovers?|leases?|meetings?|mortgages?|periods?|"
    "sentences?|sessions?|shifts?|terms?|timers?|tours?|trips?|videos?|warrant(?:y|ies)|windows?|workouts?"
)
_AFTER_TIME = lazy(rf"[ ](?:{_LASTING})(?!\w|'\w)")
_AFTER_THE_TIME = lazy(
    rf"[ ](?:{_LASTING}|breaks?|calls?|delays?|drills?|drives?|marks?|naps?|rides?|runs?|waits?|walks?)(?!\w|'\w)"
)
"""What a duration describes after "the". Without it, the verbs among them begin a clause: "after 5 min run the tap"."""
_TIMES = frozenset("s sec secs min mins h hr hrs wk wks mo mos yr yrs ms".split())
_PRICED = (
    "bill|note|coin|gift|ticket|fee|fine|voucher|coupon|card|deal|discount|deposit|loan|bonus|tip|prize|donation|menu|"
    "budget|check|cheque|bet|credit|refund|investment|bid|offer|charge|salary|house|home|car|item|minimum|coffee|pizza|"
    "question|jackpot|reward|range|mark|mortgage|cap|limit|threshold|gap|pledge|quarter"
)
"""Nouns that an amount describes after any word: "the ten dollar bill". After "a", it describes any noun."""
_NOT_PRICED = (
    "and|or|to|in|on|at|of|for|from|with|by|is|was|are|were|per|a|an|the|as|if|but|off|each|every|more|less|than|which|"
    "that|when|so|now|today|plus|minus|over|under|into|would|will|has|had"
)
_PRICED_NOUN = lazy(rf"[ -](?:{_PRICED})s?\b", re.IGNORECASE)
_AFTER_ARTICLE = lazy(rf"[ -](?!(?:{_NOT_PRICED})\b)(?:[a-z]{{3}}|[A-Z][\w-])")
_PACKAGES = (
    "package|deal|fund|budget|bill|plan|program|project|industry|market|company|lawsuit|settlement|contract|investment|loan|"
    "bailout|acquisition|takeover|merger|valuation|deficit|surplus|stimulus|grant|fine|verdict|mission|campaign|initiative|"
    "facility|plant|factory|stadium|headquarters|renovation|expansion|portfolio|penalty|buyout|buyback|upgrade|overhaul|"
    "round|sale|IPO"
)
_NOT_BETWEEN = (
    "his|her|its|our|your|their|this|these|towards?|during|after|before|once|help|raised|spent|paid|awarded|cost"
)
_PACKAGE = lazy(
    rf"[ ](?!(?:{_NOT_PRICED}|{_NOT_BETWEEN})\b)(?:[a-z]{{3,15}}[ ]|(?:[A-Z][\w.-]{{1,15}}[ ]){{1,3}})?"
    rf"(?:{_PACKAGES})\b"
)
"""What a large amount describes after "the", also with a word between: "the two billion dollar relief package"."""
_TITLES = "|".join(word.capitalize() for word in _PACKAGES.split("|"))
_RATE = lazy(r"-an?-[a-z]{3}")
"""What makes an amount a rate: "its $85bn-a-month program"."""
_HEADLINE = lazy(
    rf"(?:[ ][A-Z][A-Za-z-]{{1,14}}){{0,2}}[ ](?:{_TITLES})s?\b|[ ]Series[ ][A-H]\b"
    r"|[ ](?:[Ss]eed|[Ff]unding)[ ][Rr]ound\b"
)
"""What a large amount describes without an article: "Sign $2B Trade Deal", "raised $12M Series B"."""


_TRAVEL = lazy(r"[ ](?:walk|drive|ride|bus[ ]ride)(?=[ ](?:from|to|away|each|into)\b|[.,;)]|\s*$)")
"""What a time before it describes: "5 min. walk from"."""


def after_article(text: str, start: int) -> bool:
    """Return whether "a" or "an" is before ``text[start:]``."""
    return _ARTICLE.search(text, max(0, start - 4), start) is not None


def measure(text: str, start: int, end: int, unit: str = "") -> bool:
    """Return whether the measure at ``text[start:end]`` describes the noun after it."""
    if text[end : end + 1] == "-" and text[end + 1 : end + 2].isalpha():
        return True
    if text[end : end + 1] == ")" and text[start - 1 : start] == "(" and _CONTAINER.match(text, end):
        return True
    if not _NOUN.match(text, end):
        return False
    if after_article(text, start):
        return True
    determined = _DETERMINER.search(text, max(0, start - 8), start)
    if unit.rstrip(".") in _TIMES:
        if _TRAVEL.match(text, end):
            return True
        return (_AFTER_THE_TIME if determined else _AFTER_TIME).match(text, end) is not None
    if determined and not _STAYS_PLURAL.search(text, start, end) and _THE_NOUN.match(text, end):
        return True
    return _THING.match(text, end) is not None


def amount(text: str, start: int, end: int, *, article: bool, large: bool) -> bool:
    """Return whether the amount of money at ``text[start:end]`` describes the noun after it.

    article: "a" is before the amount, and may be part of it. large: it has a word such as "million".
    """
    if text[end : end + 1] not in (" ", "-"):
        return False
    if _RATE.match(text, end):
        return True
    if _PRICED_NOUN.match(text, end) or (article and _AFTER_ARTICLE.match(text, end)):
        return True
    if not large:
        return False
    determined = article or _DETERMINER.search(text, max(0, start - 8), start) is not None
    return _HEADLINE.match(text, end) is not None or (determined and _PACKAGE.match(text, end) is not None)


_ROOMS = r"""
    (?<![\w.]) (?P<beds>\d{1,2})[ ]?[Bb][DdRr] [ ]?[/,][ ]? (?P<baths>\d{1,2}(?:\.5)?)[ ]?[Bb][Aa]
    (?=[ ](?:houses?|homes?|apartments?|apts?|condos?|townhou?ses?|units?|flats?|ranch|colonial|duplex|cottage)\b)
"""
"""3BR/2BA house."""

_PROPERTY = (
    "homes?|houses?|condos?|apartments?|apts?|lofts?|studios?|offices?|lots?|units?|warehouses?|buildings?|ranch|retail|"
    "townhou?ses?|garage"
)
_AREA = rf"""
    (?<![\w.,$–-]) (?<![–-][ ])
    (?!(?:19|20)\d\d[ ](?:SF|sf)(?![ ](?:{_PROPERTY})\b))
    (?P<number>\d{{1,3}}(?:,\d{{3}})+|\d{{3,5}})[ ](?:SF|sf)
    (?: (?P<thing>[ ](?=(?:{_PROPERTY})\b)) | (?=[,.;/)!]|\s*$|[ ](?:of|for|in|with|and|at)\b) )
"""
"""1,100 SF, 2,000 SF condo, in a sentence about property."""
_ABOUT_PROPERTY = lazy(
    rf"\b(?:{_PROPERTY}|B[RA]s?|beds?|baths?|bdrms?|bedrooms?|leased?|rent|listing|asking|kitchen|suite|space)\b",
    re.IGNORECASE,
)


def _area(match: re.Match[str]) -> str:
    if not _ABOUT_PROPERTY.search(match.string):
        return match[0]
    return f"{numbers.number(match['number'])} square {'foot ' if match['thing'] else 'feet'}"


_JEANS = r"(?<![\w.])(?P<waist>[2-5]\d)W[ ]?(?:x|×|/|-|by)?[ ]?(?P<length>[2-4]\d)L(?!\w)"
"""The waist and the length of trousers: 32W x 30L. They are no watts and liters."""

RULES: tuple[Rule, ...] = (
    rule(
        _JEANS,
        lambda match: f"{numbers.number(match['waist'])} W by {numbers.number(match['length'])} L",
        beside("", "W", spaced=False),
    ),
    rule(_AREA, _area, beside("", "Ss")),
    rule(
        _ROOMS,
        lambda match: f"{numbers.number(match['beds'])} bedroom {numbers.number(match['baths'])} bath",
        beside("", "Bb"),
    ),
    rule(
        rf"(?<![\w.,])(?P<amps>\d{{1,3}})[ ]?A(?=[ ](?:{'|'.join(_ELECTRIC)})s?\b)",
        lambda match: f"{numbers.number(match['amps'])} amp",
        [word + tail for word in _ELECTRIC for tail in ("", "s")],
    ),
)
"""Run before codes: a "20A breaker" has amps, but seat 20A does not."""
