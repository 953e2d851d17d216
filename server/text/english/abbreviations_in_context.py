"""Abbreviations that a word or a number beside them decides: temp. job, Ex. A, Bldg. B, Adm. fee, 4th Amend., W/D."""

from __future__ import annotations

import re

from server.text.english import numbers
from server.text.english.abbreviation_words import NUMBERED
from server.text.english.rules import Rule, alternatives, first_words, rule
from server.text.patterns import lazy

_LETTERED_WORDS = "app fig bldg apt rm Bldg Apt Ste Rm Fig App Tbl Para Bk Sch".split()
_LETTERED = rf"(?<![\w.])(?P<word>{alternatives(_LETTERED_WORDS)})\.?[ ](?=[A-Z](?![\w'’]|\.\w))"
"""Bldg. B."""
_LAUNDRY = r"""
    (?<!\w)W/D (?=[ ](?:in|on|hook-?ups?|incl\w*|inside|provided|combo|and|&)(?!\w)|\s*[.,;)]|\s*$)
"""
"""W/D in unit."""
_PUBLIC_LAW = r"(?<![\w.])Pub\.[ ]?L\.(?:[ ]No\.)?[ ](?P<congress>\d{2,3})[-–](?P<law>\d{1,3})(?!\w)"
"""Pub. L. 117-58."""
_ADMISSION = r"\b(?P<word>[Aa])dm\.?(?=[ ](?:fees?|prices?|charges?|costs?|tickets?|is|only|[$€£])|:[ ]?[$€£\d])"
_APPROXIMATE = r"""
    (?<![\w.]) (?P<word>[Aa])pprox\.?
    (?=[ ](?:no\.|number|size|costs?|date|location|value|age|weight|length|price|total)(?!\w))
"""
_MEDICAL = r"(?<![\w.])(?P<word>[Mm])ed\.(?=[ ](?:school|student|degree|exam|records?|staff|center|bills?)\b)"
_MEDIUM = r"(?<![\w.])(?P<word>[Mm])ed\.(?=[ ](?:heat|fries|size|rare|onions?|eggs?|shirt|coffee|pizza)\b)"
_EVENING = r"""
    (?: (?<=\bTues\.[ ]) | (?<=\bThurs\.[ ]) | (?<=\b[MSW][a-z]{2}\.[ ]) | (?<=\b[TF][a-z]{2}\.[ ]) | (?<=day[ ]) )
    eve\. (?=[ ][a-z])
"""
"""Wed. eve. service."""
_CATEGORY = r"""
    (?: (?<=^) | (?<=[:,(][ ]) | (?<=\ba[ ]) | (?<=\bto[ ]) ) (?P<word>[Cc])at\.? (?=[ ][1-6](?![\w.]\w|\w))
"""
"""Cat. 4: of a storm or a cable."""
_TEMPORARY = r"""
    (?<![\w.]) (?P<word>[Tt])emp\.
    (?=[ ](?:jobs?|work\w*|positions?|agency|staff|files?|housing|permit|employ\w+|ID|address)\b)
"""


_SIZES = {"lg": "large", "sm": "small"}
_SIZE = r"""
    (?<![\w.]) (?P<size>Lg|LG|lg|Sm|SM|sm)\.?
    (?= [ ](?:pizza|fries|drink|coffee|soda|coke|latte|tea|salad|combo|order|sub|soup|popcorn|pepperoni|cheese|iced
      |[$]\d) )
"""
"""Lg pizza $14.99, sm $9.99."""


_PLURALS = {"ch": "chapters", "chap": "chapters", "p": "pages", "vol": "volumes"}
_SPAN_OF = r"""
    (?<![\w.])(?P<word>ch|Ch|chap|Chap|p|vol|Vol)\.[ ](?=(?P<first>\d{1,3})[-–](?P<last>\d{1,3})(?!\w|[.-]\d))
"""
"""ch. 4-6."""
_ABOUT_EXAM = lazy(
    r"\bon the (?:SAT|ACT)\b|\bSATs? (?:or|and) (?:the )?ACT\b|\bACTs? (?:or|and) (?:the )?SAT\b"
    r"|\b(?:took|take|taking) the ACT(?! (?:home|to|into))\b|\bACT (?:score|prep|test|exam)"
)
"""What shows that ACT and SAT are the exams, and not words in capitals."""
_DISCOUNT = r"""
    (?: (?<=%[ ]) | (?<=\bpercent[ ]) ) disc\.
  | \b(?P<whose>(?i:student|veteran|senior|member|employee|military|bulk|early[ -]bird)[ ])disc\.(?=[ ][a-z\d])
"""
"""20% disc., student disc. available. Elsewhere a disc is round."""
_SECTIONED = lazy(r"\b(?:Titles?|Chapters?|ch\.|Parts?|Articles?|Art\.|Act)[ ]\w{1,4}[ ]$")
"""What "secs. 3" divides: "Title 18 secs. 3 and 4"."""


def _exam(match: re.Match[str]) -> str:
    return " ".join(match[0]) if not match.string.isupper() and _ABOUT_EXAM.search(match.string) else match[0]


def _seconds(match: re.Match[str]) -> str:
    return match[0] if _SECTIONED.search(match.string, 0, match.start()) else "seconds"


def _span_of(match: re.Match[str]) -> str:
    return f"{_PLURALS[match['word'].lower()]} " if int(match["first"]) < int(match["last"]) else match[0]


def _public_law(match: re.Match[str]) -> str:
    return f"Public Law {numbers.grouped(match['congress'])} {numbers.grouped(match['law'])}"


_STATISTICS = {"PTS": "point", "REB": "rebound", "AST": "assist", "STL": "steal", "BLK": "block"}
_STATISTIC = rf"(?<![\w.,])(?P<count>\d{{1,3}})[ ](?P<name>{'|'.join(_STATISTICS)})(?!\w)"
"""33 PTS, 6 REB, 8 AST."""
_BOX_SCORE = lazy(r"\d (?:PTS|REB)\b.*\d (?:REB|AST|STL|BLK)\b")


def _statistic(match: re.Match[str]) -> str:
    if not _BOX_SCORE.search(match.string):
        return match[0]
    return f"{match['count']} {_STATISTICS[match['name']]}{'' if match['count'] == '1' else 's'}"


_STITCHES = (
    r"(?P<count>(?<![\w.])\d{1,3}(?:[ ]?\([\d, ]{1,30}\))?)[ ]?(?P<noun>sts?)\b(?:\.(?=[ ][a-z]|,))?(?!\w|[ ]\d)"
)
"""84 (92, 100) sts."""
_KNITTING = lazy(r"(?i)\b(?:sts|knit\w*|purl\w*|yarn|needles?|crochet\w*|rows?|cast (?:on|off))\b")


def _stitches(match: re.Match[str]) -> str:
    if not _KNITTING.search(match.string) or (match["noun"] == "st" and match["count"] != "1"):
        return match[0]
    return f"{match['count']} stitch{'' if match['noun'] == 'st' else 'es'}"


_PRECISION = r"(?<![\w.,])(?P<count>\d{1,2})[ ]?(?P<kind>s\.[ ]?f|d\.[ ]?p)\b\.?(?!\w)(?P<end>(?=[ ][A-Z]|\s*$))?"
"""3 s.f., 2 d.p."""


def _precision(match: re.Match[str]) -> str:
    noun = "significant figure" if match["kind"][0] == "s" else "decimal place"
    return f"{match['count']} {noun}{'' if match['count'] == '1' else 's'}{'' if match['end'] is None else '.'}"


RULES: tuple[Rule, ...] = (
    rule(_STATISTIC, _statistic, _STATISTICS),
    rule(
        r"(?P<before>\b(?i:bedroom|bdrm|br|studio)[ ])apt\b(?!\.?[ ]?\d)(?:\.(?=[ ][a-z]|,))?",
        r"\g<before>apartment",
        ("apt",),
    ),
    rule(r"\b(?P<years>(?:yrs?\.?|years'?)[ ](?:of[ ])?)exp\b(?!\w)\.?", r"\g<years>experience", ("exp",)),
    rule(r"\b(?P<by>(?:on|[Uu]pon|by|per)[ ])req\.", r"\g<by>request", ("req",)),
    rule(r"(?<![\w.])(?P<word>[Ee]xp(?=\.)|exp)\.?(?=[ ]dates?\b)", r"\g<word>iration", ("exp",)),
    rule(r"(?<![\w.])(?<!\d[ ])(?P<word>[Pp])t\.?(?=[ ](?:I{1,3}|IV|VI{0,3}|IX|X)(?!\w))", r"\g<word>art", ("pt",)),
    rule(r"(?P<amount>[$€£]\d[\d.,]*[ ])p\.?p\b(?:\.(?=,|[ ][a-z]))?(?!\w)", r"\g<amount>per person", (" p.p", " pp")),
    rule(r"(?P<amount>[$€£]\d[\d.,]*[ ])ea\b(?!\w|\.)", r"\g<amount>each", ("ea",)),
    rule(r"(?P<price>£\d[\d,.]*[ ])(?:ono|ONO)\b", r"\g<price>or nearest offer", ("ono",)),
    rule(r"(?<=\d[ ])pp\b\.?(?=[,;)]|[ ]of\b)", "pages", ("pp",)),
    rule(r"(?<=\d[ ])gp\b(?=[,.;)]|\s*$|[ ](?:and|each|worth|for)\b)", "gold pieces", ("gp",)),
    rule(r"(?<=\d[ ])rds\b", "rounds", ("rds",)),
    rule(r"(?<!\w)(?P<word>[Ll])v(?:l)?(?=\d{1,3}(?![\w:]))", r"\g<word>evel ", ("lv", "lvl")),
    rule(r"(?<=\d[ ])(?P<size>lg|sm)(?=[ ][A-Za-z]{3})", lambda match: _SIZES[match["size"]], ("lg", "sm")),
    rule(r"(?P<number>\d\.\d{1,2}|[$€£]\d{1,3})[ ]?mn\b", r"\g<number> million", ("mn", r"\dmn")),
    rule(r"\b(?P<number>one|two|three|four|five|six|seven|eight|nine|ten)[ ]mn\b", r"\g<number> million", ("mn",)),
    rule(r"(?<=\bcar[ ])gar\.", "garage", ("gar",)),
    rule(
        r"\b(?P<whose>(?:[Bb]ank|[Ss]chool|[Ss]ummer)[ ])hol(?P<many>s)?\b",
        lambda match: f"{match['whose']}holiday{match['many'] or ''}",
        ("hol", "hols"),
    ),
    rule(r"(?<![\w.])(?P<word>[Pp])lat\.(?=[ ]\d{1,2}(?!\w))", r"\g<word>latform", ("plat",)),
    rule(
        r"(?P<kind>\b(?:apparent|absolute|visual|limiting)[ ])mag\b\.?|(?<![\w.])mag\.(?=[ ](?:[-−+]\d|\d{1,2}\.\d))",
        lambda match: f"{match['kind'] or ''}magnitude",
        ("mag",),
    ),
    rule(_PRECISION, _precision, ("s.f", "d.p")),
    rule(r"(?<![\w.])(?P<word>[Ff])ol\.(?=[ ]\d)", r"\g<word>olio", ("fol",)),
    rule(r"(?<![\w-])[Gg]t-(?:gt-){0,5}(?=grand)", lambda match: match[0].replace("t-", "reat-"), ("gt",)),
    rule(r"(?<![\w.])(?<!\b[Nn]ew[ ])Yr\.?(?=[ ](?:[1-9]|1[0-3])(?![\w.,]))", "Year", ("yr",)),
    rule(r"(?<=\d)-?pt(?=[ ](?:drama|series|documentary|thriller|mini-?series|adaptation)\b)", " part", ("pt",)),
    rule(
        r"(?<![\w.])(?:(?P<on>CO)|BO)[ ](?:(?P<rest>rem\w*\.?[ ])(?=sts?\b)|(?=(?:\d{1,3}|all)[ ]sts?\b))",
        lambda match: ("cast on " if match["on"] else "bind off ") + ("remaining " if match["rest"] else ""),
        ("CO", "BO"),
    ),
    rule(_STITCHES, _stitches, ("st", "sts")),
    rule(r"(?:(?<=\boff[ ]all[ ])|(?<=\bremaining[ ]))sts\b", "stitches", ("sts",)),
    rule(r"(?<![\w.])(?P<word>[Rr])efs\.(?=[ ](?:avail|on|upon|req|furn|prov))", r"\g<word>eferences", ("refs",)),
    rule(r"(?<![\w.])(?P<word>[Vv])is\.(?=[ ]\d)", r"\g<word>isibility", ("vis",)),
    rule(r"(?<![\w.])(?P<word>[Mm])i\.(?=[ ](?:marker|post)s?\b)", r"\g<word>ile", ("mi",)),
    rule(r"(?<![\w.])(?P<word>[Cc])onf\.?(?=[ ](?:[Rr]m|[Rr]oom|[Cc]all)\b)", r"\g<word>onference", ("conf",)),
    rule(r"(?<![\w.])RT\.?(?=[ ]\d{1,3}[A-Z]?(?![\w%]))", "route", ("rt",)),
    rule(_SIZE, lambda match: _SIZES[match["size"].lower()], ("lg", "sm")),
    rule(r"(?<=\d[ ])cr\.", "credits", ("cr",)),
    rule(r"(?<![\w.])hum\.(?=[ ]\d)", "humidity", ("hum",)),
    rule(r"(?<=\b[Tt]he[ ])co\.(?=[ ][a-z]|'s)", "company", ("co",)),
    rule(r"(?<![\w.])(?P<word>[Ww])k\.?(?=[ ]\d{1,2}(?!\w))", r"\g<word>eek", ("wk",)),
    rule(_MEDICAL, r"\g<word>edical", ("med",)),
    rule(r"(?<=\d[ ])med\.", "medium", ("med",)),
    rule(r"(?<![\w.])Bd\.(?=[ ]of[ ])", "Board", ("bd",)),
    rule(r"(?<=\d(?:st|nd|rd|th)[ ])[Gg]r\.", "grade", ("gr",)),
    rule(r"(?<![\w.])Hist\.(?=[ ](?:Soc|Assn|Society|Association|Dist|District|Site)\b)", "Historical", ("hist",)),
    rule(r"(?<=\d[ ])revs\.", "reviews", ("revs",)),
    rule(
        r"(?<![\w.])Fed\.(?=[ ](?:Reserve|Bureau|Court|Agency|Govt?|Gov't|Register|law|tax|income)\b)",
        "Federal",
        ("fed",),
    ),
    rule(r"(?<=[a-z][ ])Bd\.", "Board", ("bd",)),
    rule(r"(?<![\w.])Rep\.(?=[ ](?:from|of|for)\b)", "Representative", ("rep",)),
    rule(r"(?<![\w.])(?P<word>[Ll])at\.(?=[ ]\d{1,2}(?:\.\d+)?[ ]?°)", r"\g<word>atitude", ("lat",)),
    rule(r"(?<![\w.])(?P<word>[Ll])ong\.(?=[ ]\d{1,3}(?:\.\d+)?[ ]?°)", r"\g<word>ongitude", ("long",)),
    rule(r"(?<=\b[Yy]rs\.[ ])coll\.", "college", ("coll",)),
    rule(r"(?<![\w.])(?P<word>[Mm])ed\.?(?=-(?:high|low)\b|[ ](?:high|low)?[ ]?heat\b)", r"\g<word>edium", ("med",)),
    rule(_DISCOUNT, lambda match: f"{match['whose'] or ''}discount", ("disc",)),
    rule(r"(?:(?<=\bQ[1-4][ ])|(?<=\bFY\d\d[ ]))rev\.?(?=[ ][a-z$])", "revenue", ("rev",)),
    rule(r"(?<=\d[ ])secs\.(?=[ ]\d)", _seconds, ("secs",)),
    rule(_SPAN_OF, _span_of, frozenset(_PLURALS)),
    rule(r"(?<!\w)(?:ACT|SAT)(?!\w)", _exam, ("ACT", "SAT")),
    rule(_MEDIUM, r"\g<word>edium", ("med",)),
    rule(r"(?<![\w.])Term\.(?=[ ]\d(?!\w))", "Terminal", ("term",)),
    rule(r"(?<![\w.])Ct\.(?=[ ]of[ ])", "Court", ("ct",)),
    rule(r"(?<![\w.])Pop\.(?=[ ]\()", "Population", ("pop",)),
    rule(r"(?<![\w.])Sen\.[ ]Maj\.[ ](?:Ldr\.|Leader)", "Senate Majority Leader", ("maj",)),
    rule(r"(?<![\w.])WW[ ](?=I{1,2}(?!\w))", "World War ", "WW "),
    rule(_APPROXIMATE, r"\g<word>pproximate", ("approx",)),
    rule(r"(?<=\d[ ])\(est\.?\)", "(estimated)", ("est",)),
    rule(r"(?<=\d(?:st|nd|rd|th)[ ])B[Nn]\.", "Battalion", ("bn",)),
    rule(r"(?<![\w.&])(?<!&[ ])Co\.(?=[ ][A-M](?![\w.']))", "Company", ("co",)),
    rule(_CATEGORY, r"\g<word>ategory", ("cat",)),
    rule(r"(?<=\bgg[ ])wp(?!\w)", "well played", ("wp",)),
    rule(r"(?<![\w.])(?P<word>[Pp])op\.(?=[ ](?:density|growth|of[ ]\d))", r"\g<word>opulation", ("pop",)),
    rule(
        r"(?<![\w.])Pub\.[ ]?L\.(?:[ ]No\.)?[ ](?P<congress>\d{2,3})[-–](?P<law>\d{1,3})(?!\w)", _public_law, ("pub",)
    ),
    rule(_ADMISSION, r"\g<word>dmission", ("adm",)),
    rule(_LETTERED, lambda match: f"{NUMBERED[match['word']]} ", first_words(_LETTERED_WORDS)),
    rule(r"(?<![\w.])Ex\.[ ](?=[A-Z](?![\w'’]|\.\w))", "Exhibit ", ("ex",)),
    rule(r"(?<=[,(])(?P<space>[ ]?)[Rr]et\.?(?=[),;]|\s*$)", r"\g<space>retired", ("ret",)),
    rule(r"^Corp\.(?=[ ][A-Z])", "Corporate", ("corp",)),
    rule(r"\b(?P<whose>(?:my|your|ur|his|her|our|their)[ ])addr(?![\w.])", r"\g<whose>address", ("addr",)),
    rule(r"(?:(?<=[a-z][ ])|(?<=^))hrs?(?=:)|(?<=\b[Oo]ffice[ ])hrs?\b\.?(?![ ]?\d)", "hours", ("hrs",)),
    rule(r"(?<![\d.][ ])(?<![\d.])\bhrs\b\.?(?![ ]?\d)(?=[ ,;:)]|$)", "hours", ("hrs",)),
    rule(
        r"\b(?P<week>[Ww])/c(?=[ ](?:\d{1,2}(?:st|nd|rd|th)?[ ][A-Z]|[A-Z][a-z]{2,8}[ ]\d|\d{1,2}/\d))",
        lambda match: f"{match['week']}eek commencing",
        ("w/c", "W/c"),
    ),
    rule(
        r"(?<![\w.])(?P<number>\d{1,2})(?:d|st|nd|rd|th)[ ]Cir\.?(?!\w)",
        lambda match: f"{numbers.ordinal(int(match['number']))} Circuit",
        ("cir",),
    ),
    rule(r"(?:(?<=:\d\d[ ]of[ ])|(?<=^))Rd\.?(?=[ ]\d)", "Round", ("rd",)),
    rule(r"(?P<winner>\b[A-Z][\w'-]{1,30}[ ])def\.(?=[ ][A-Z])", r"\g<winner>defeated", ("def",)),
    rule(
        r"(?<!\w)Adj\.(?=[ ](?:EPS|EBITDA?|[Nn]et|[Oo]perating|[Pp]rofit|[Ee]arnings|[Gg]ross|[Ii]ncome)\b)",
        "Adjusted",
        ("adj",),
    ),
    rule(
        r"(?P<whose>\b(?i:your|my|the|this|his|her|new)[ ])Rx(?=[ ](?:is|was|for|from|at|will|has)\b|[.,;!?])",
        r"\g<whose>prescription",
        ("rx",),
    ),
    rule(r"\b[Dd]ew[ ]pt\b\.?", "dew point", ("pt",)),
    rule(
        r"(?<![\w.])F\.(?P<supplement>[ ]?Supp\.[ ]?)?(?P<series>[234])d(?!\w)",
        lambda match: f"F{' Supp' if match['supplement'] else ''} {numbers.ordinal(int(match['series']))}",
        ("F.",),
    ),
    rule(r"(?<![\w.])Amend\.[ ](?=[IVX]+\b)", "Amendment ", ("amend",)),
    rule(
        r"(?<![\w.])S\.[ ](?P<number>\d{3,4})(?=[ ]on\b|[.,;)]|\s*$)",
        lambda match: f"S {numbers.grouped(match['number'])}",
        ("S. ",),
    ),
    rule(_TEMPORARY, r"\g<word>emporary", ("temp",)),
    rule(r"\brev\.(?=[ ](?:ed\b|&|and[ ]enl))", "revised", ("rev",)),
    rule(r"(?<![\w.])(?P<word>[Hh])on\.(?=[ ][a-z])", r"\g<word>onorable", ("hon",)),
    rule(_EVENING, "evening", ("eve",)),
    rule(r"(?<=\d(?:st|nd|rd|th)[ ])pl\.", "place", ("pl",)),
    rule(r"(?<=\d(?:st|nd|rd|th)[ ])Amend\.?(?!\w)", "Amendment", ("amend",)),
    rule(r"^Co\.(?=[ ][a-z])", "Company", ("co",)),
    rule(r"(?<![\w.])Pop\.[ ](?=\d)", "Population ", ("pop",)),
    rule(_LAUNDRY, "washer and dryer", "W/D"),
)
"""Run before numbers and before other abbreviations."""
