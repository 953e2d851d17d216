"""Abbreviations as words, by context: No. 5, vs., e.g., Acme Inc., U.S., J. R. R. Tolkien. See also ``titles``."""

from __future__ import annotations

import re

from server.text import marks
from server.text.english import dates, letters, numbers, weekdays
from server.text.english.abbreviation_words import (
    BARE_NUMBERED,
    COMPANIES,
    NUMBERED,
    STREETS,
)
from server.text.english.chat_words import CHAT, LOWER_ACRONYMS, SOUNDS
from server.text.english.general_abbreviations import WORDS
from server.text.english.rules import Rule, alternatives, first_words, rule
from server.text.patterns import lazy

_SPELLED = {
    word: letters.spell_plural(word[:-1]) if word.endswith("s") else letters.spell(word)
    for word in LOWER_ACRONYMS
    if word not in ("css", "https", "gps", "sms")
}
_CAPITALIZED = {
    word[0].upper() + word[1:]: spoken[0].upper() + spoken[1:]
    for word, spoken in (WORDS | CHAT).items()
    if len(word) > 2 and word != "oz."  # Oz is a name
}
_ALL_WORDS = (
    _CAPITALIZED
    | WORDS
    | CHAT
    | _SPELLED
    | {word: letters.spell(word) for word in ("css", "https", "gps", "sms", "cd")}
)
_ALSO_WORDS = frozenset(
    "temp. ref. rev. ed. admin. intro. max. min. diff. corp. resp. cert. dir. exec. co. avail. dep. arr. bal.".split()
)
"""Abbreviations that are words at the end of a sentence: "Call the ref."."""
_NEVER_END = frozenset(
    "e.g. i.e. a.k.a. vs. cf. ca. viz. approx. attn. tel. ref. incl. excl. est. orig. avg. min. max. vit. eds. assoc. "
    "asst. amer. exec. pls. lg. sm. intl. natl. esp.".split()
) | {"tel. no.", "phone no.", "ref. no.", "serial no."}
"""Abbreviations that never end a sentence, even before a capital."""
_NAME = r"(?=[ ][A-Z])"
_NAME_AFTER = lazy(r"[ ][A-Z][a-z]")
_COUNTIES = (
    "Antrim Armagh Carlow Cavan Clare Cork Derry Donegal Down Dublin Durham Fermanagh Galway Kerry Kildare Kilkenny "
    "Laois Leitrim Limerick Longford Louth Mayo Meath Monaghan Offaly Roscommon Sligo Tipperary Tyrone Waterford "
    "Westmeath Wexford Wicklow"
).split()
"""Counties that "Co." stands before."""
ORDINAL_WORDS = (
    "first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth|[a-z]+teenth|[a-z]+ieth|"
    "[a-z]+ty-[a-z]+(?:st|nd|rd|th)"
)
_NUMBERED = rf"""
    (?<![\w.])
    (?: (?P<word>{alternatives(NUMBERED)})\.[ ]?
        (?= \#?\d | [IVX]{{2,}}\b | (?<![Nn]o\.[ ])(?<![Nn]o\.)[VIX]\b |
            (?<=[pPhHlLcCgG]\.[ ])(?:x{{0,3}}(?:ix|iv|vi{{0,3}}|i{{2,3}})|xi|x{{2,3}}i?)(?!\w) )
      | (?P<bare>{alternatives(BARE_NUMBERED)})[ ](?=\#?\d) )
"""
_STREET = rf"""
    (?<=[\w.{marks.NAMES}])(?P<space>[ ])(?P<word>{alternatives(STREETS)})
    (?P<stop>\.|(?=[,;]|\s*$|[ ][a-z]|[ ][NS]?[EW](?!\w)|[ ][NS](?!\w)|[ ](?:North|South|East|West)\b|[ ]&))
"""
_COMPANY = rf"(?<=[\w&.])(?P<comma>,?[ ])(?P<word>{alternatives(COMPANIES)})(?P<stop>\.)"
_COMPANY_BEFORE = r"(?<![\w.])(?P<word>Univ|Dept|Assn|Inst|Intl|Natl)\.(?=[ ])"
_WEEKDAY = r"(?<![\w.])(?P<word>Mon|Tues?|Weds?|Thu(?:rs?)?|Fri|Sat|Sun)\."
_WEEKDAY_BEFORE = lazy(
    r"(?:\b(?:on|by|from|every|each|next|last|this|until|till|to|and|or|through|before|after|since|come|meets?|closed|open|off|due|resumes?)|[,;:\-&])\s?$|^$",
    re.I,
)
_MONTH = r"(?<![\w.])(?P<word>Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\."
_DOTTED = r"(?<![\w.])(?P<word>(?:[A-Z]\.){2,6})(?P<tail>'?s\b)?"
_HALF = r"(?<![\w.])(?P<half>[ap])\.[ ]?m\.(?!\w)"
_INITIALS = r"(?<![\w.'])(?P<word>(?:[A-Z]\.[ ]?){1,4})(?=[ ]?[A-Z][a-z'])"
_STARTER = lazy(
    r"[\"')]*\s+[\"'(]?(?:The|He|She|It|They|We|I|This|That|These|Those|In|On|At|A|An|But|And|So|If|When|His|Her|My|Our|Their|Its|There|"
    r"Please|You|Your|To|For|As|By|What|Who|Why|How|Where|Then|Now|After|Before|Is|Are|Was|Do|Does|No|Yes|Not|All|Some|Most|"
    r"One|With|From|However|Call|Ask|See|Turn|Go)\b"
)
"""Words that begin a sentence after an abbreviation, because they rarely continue a name."""
_INITIAL_BEFORE = lazy(
    r"(?:[A-Z][a-z]+|[A-Z]{2,}|^|[\"(,;:]|\b(?:[Bb]y|[Aa]nd|[Oo]f|[Ff]rom|[Ww]ith|[Tt]o|[Aa]uthor|[Ii]s|[Ww]as)|[.!?])\s?$"
)
_SUBJECT = r"(?:^|(?<=^[Ss]ubject:[ ]))(?:(?:RE|Re|re|FWD?|Fwd?|fwd?):(?:[ ]|(?=[A-Z]))){1,6}(?=\S)"
"""The beginning of the subject of a mail: Re: Fwd:."""
_VERSUS = r"(?P<first>[A-Z][a-z]+)[ ]v\.?[ ](?=[A-Z][a-z])"
_RATES = {"min": "minute", "hr": "hour"}
_NOUN_BEFORE = lazy(r"\b(?:no|little|any|without|of) $", re.IGNORECASE)
_WORD = rf"(?<![\w./@])(?<!slash[ ])(?P<word>{alternatives(_ALL_WORDS)})(?![\w/@]|'\w)"
_COUNTY = rf"(?<!\w)(?<!&[ ])(?<!and[ ])Co\.(?=[ ](?:Rd\b|Road\b|{'|'.join(_COUNTIES)}))"
_PROVINCES = {"Ont": "Ontario", "Que": "Quebec", "Alta": "Alberta", "Sask": "Saskatchewan"}
_FEATURING = r"""
    (?P<before>\b[A-Z][\w'.-]*(?:[ ]\d{1,3})?[ ]) (?:ft|feat)\b\.?
    (?=[ ](?!(?:The|It|He|She|We|They|This|A|An|In|At|On|And|But|You|I|Please|No|All|Each|If|N|S|E|W)\b)[A-Z])
"""
"""Drake ft. Rihanna."""
_EXPIRES = rf"(?<!\w)(?i:exp)\b\.?[ ](?=\d{{1,2}}/\d{{1,4}}|{dates.MONTH}[ ])"
_AGES = (
    r"\b(?P<before>(?:[Uu]nder|[Oo]ver))(?:-|(?<=\b[Tt]he[ ]under)[ ]|(?<=\b[Tt]he[ ]over)[ ])(?P<age>\d{1,3})s(?!\w)"
)
"""under-16s."""
_NUMBER_OF = r"""
    \b (?P<noun>batch|model|order|phone|serial|part|case|item|unit|tracking|account|ref|reference|confirmation|policy
    |license|licence|passport|invoice|booking|flight|room|member|registration|contact|mobile|ticket|docket|customer|employee)
    [ ]no\b\. (?=[ ](?:[A-Z]{0,4}-?\d|(?-i:ending|is|was|for|and|on|below|above|or)\b)|:)
"""
_NEAR = r"""
    (?<!\w) nr\.?
    (?=[ ](?:the|schools?|shops?|parks?|downtown|beach|campus|bus|trains?|station|metro)\b|[ ][A-Z])
"""
_ESTIMATED = r"(?<![\w.])(?P<word>[Ee])st\.(?=[ ](?!(?:in[ ])?\d{4}))"
_HEIGHTS = {"lev": "levation ", "lt": "ltitude ", "ist": "istance "}
_DEGREE = r"(?<![\w.])(?P<word>M\.?D|B\.?A|M\.?A|M\.?B\.?A|Ed\.?D|D\.?D\.?S|J\.?D)\.(?=\W|$)"


def stop(match: re.Match[str]) -> str:
    """Return a full stop if that of the abbreviation also ends the sentence, else ""."""
    after = match.string[match.end() : match.end() + 4]
    return "." if not after.strip() or (re.match(r"[\"')]*\s+[A-Z]", after) and not re.match(r"\s+I\b", after)) else ""


def stop_after_name(match: re.Match[str]) -> str:
    """Like ``stop``, for abbreviations within names, "U.S. Army": a capital may continue the name."""
    after = match.string[match.end() : match.end() + 16]
    return "." if not after.strip() or _STARTER.match(after) else ""


def _follows_noun_marker(match: re.Match[str]) -> bool:
    """Return whether the word is a noun and no abbreviation: "to no avail."."""
    return _NOUN_BEFORE.search(match.string, max(0, match.start() - 10), match.start()) is not None


def _available(match: re.Match[str]) -> str:
    return match[0] if _follows_noun_marker(match) else f"{match['word']}vailable"


def _street(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - 24) : match.start()]
    if not re.search(rf"(?:[A-Z][\w'\-]*\.?|[{marks.NAMES}]|\d(?:st|nd|rd|th)|\b(?:{ORDINAL_WORDS}))$", before):
        return match[0]
    stop = stop_after_name(match) if match["stop"] else ""
    return f"{match['space']}{STREETS[match['word']]}{stop}"


def _company(match: re.Match[str]) -> str:
    word, comma = match["word"], match["comma"]
    before = match.string[max(0, match.start() - 24) : match.start()]
    if word == "Co" and not re.search(r"[A-Z&][\w']*\.?$|\band$", before):
        return match[0]
    lead = " " if word in ("Jr", "Sr", "Inc", "Ltd", "Corp", "Co") else comma
    return f"{lead}{COMPANIES[word]}{stop_after_name(match)}"


def _weekday(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - 12) : match.start()]
    after = match.string[match.end() : match.end() + 3]
    if not _WEEKDAY_BEFORE.search(before) and not re.match(r"\s[a-z\d&]|,", after):
        return match[0]
    return weekdays.day_name(match["word"]) + stop(match)


def _dotted(match: re.Match[str]) -> str:
    return letters.spell(match["word"].replace(".", "")) + ("'s" if match["tail"] else "") + stop_after_name(match)


def _half(match: re.Match[str]) -> str:
    return f"{match['half']}.m."


def _initials(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - 16) : match.start()]
    if len(match["word"].strip()) <= 2 and not _INITIAL_BEFORE.search(before):
        return match[0]
    if match["word"].strip() == "I." and before.strip():
        return match[0]
    return letters.spell(match["word"]) + " "


def _word(match: re.Match[str]) -> str:
    word = match["word"]
    spoken = _ALL_WORDS[word]
    if word == "Asap" and _NAME_AFTER.match(match.string, match.end()):  # A$AP Rocky
        return word
    if word.lower() in _ALSO_WORDS and word not in ("Dir.", "Exec.") and (stop(match) or _follows_noun_marker(match)):
        return word
    if match.start() and spoken[0].isupper() and spoken[:2] != "I " and word.isupper() and not _starts_sentence(match):
        spoken = spoken[0].lower() + spoken[1:] if spoken[1:2] != " " else spoken
    ends = word.endswith(".") and (word.lower() not in _NEVER_END or match.end() == len(match.string))
    return spoken + (stop(match) if ends else "")


def _starts_sentence(match: re.Match[str]) -> bool:
    return re.search(r"(?:^|[.!?]\s)$", match.string[max(0, match.start() - 3) : match.start()]) is not None


def _edition(match: re.Match[str]) -> str:
    return "edition" + stop(match)


def _subject(match: re.Match[str]) -> str:
    marks = dict.fromkeys(re.findall(r"[a-z]+", match[0].lower()))
    return " ".join("Regarding:" if mark == "re" else "Forwarded:" for mark in marks) + " "


def _plural_age(text: str) -> str:
    return numbers.plural_number(numbers.cardinal(int(text)))


def _battery(match: re.Match[str]) -> str:
    return "triple A" if match["third"] else "double A"


EARLY: tuple[Rule, ...] = (
    rule(_EXPIRES, "expires ", ("exp",)),
    rule(_AGES, lambda match: f"{match['before']} {_plural_age(match['age'])}", r"\ds"),
    rule(r"(?<=\d(?:st|nd|rd|th)[ ])ed\.(?P<end>(?=[),;]|\s*$))?", _edition, "ordinal digit"),
    rule(r"(?<=[a-z][ ])d\.[ ](?=[A-Z][a-z]+[ ](?:[A-Z][a-z]+[ ])?[0-7][-–][0-7])", "defeated ", " d."),
    rule(r"\best\.(?=[ ]of\b)", "estimate", "est."),
    rule(
        r"(?<![\w.])(?P<first>[EeAaDd])(?P<rest>lev|lt|ist)\.[ ](?=[\d,.]{1,8}[ ]?(?:ft|feet|k?m|mi|miles|meters)\b)",
        lambda match: match["first"] + _HEIGHTS[match["rest"]],
        ("elev", "alt", "dist"),
    ),
    rule(r"(?<=\d[ ])bc(?=\s*(?:$|[.,;:)]))", "B C", ("bc",)),
    rule(_FEATURING, r"\g<before>featuring", ("ft", "feat")),
    rule(r"(?<=[(\[])(?P<word>[Ff])(?:ea)?t\.(?=[ ][A-Z])", r"\g<word>eaturing", ("ft", "feat")),
    rule(r"(?<!\w)Conf\.(?=[ ]?\#)", "confirmation", ("conf",)),
    rule(r"(?<!\w)401[ ]?\(?[kK]\)?(?!\w)", "four oh one K", "401"),
    rule(r"(?<!\w)403[ ]?\(?b\)?(?!\w)", "four oh three B", "403"),
    rule(
        r"(?<!\w)U(?P<age>\d{1,2})s(?!\w)",
        lambda match: f"under {_plural_age(match['age'])}",
        "letter digit",
    ),
    rule(r"(?<=\bVHF[ ])[Cc]h\b\.?[ ]?(?=\d)", "channel ", ("vhf",)),
    rule(_NUMBER_OF, lambda match: f"{match['noun']} number", ("no",), ignore_case=True),
    rule(
        r"\b(?P<before>(?:[Uu]nder|[Bb]y|[Ss]ee|[Ii]n|[Aa]nd|[Oo]f)[ ])(?P<many>s)?s\.[ ]?(?=\d)",
        lambda match: f"{match['before']}section{match['many'] or ''} ",
        (" s.", "ss."),
    ),
    rule(rf"(?<![\w.])(?:{alternatives(SOUNDS)})(?!\w)", lambda match: SOUNDS[match[0]], tuple(SOUNDS)),
    rule(
        r"(?<![\w.])(?P<word>[Cc])a?\.[ ]?(?=\d{3,4}(?!\d)|\d[\d.,]{0,8}[ ]?(?:m|bn|k|thousand|million|billion)\b)",
        lambda match: "circa " if match["word"] == "c" else "Circa ",
        ("c.", "C.", "ca.", "Ca."),
    ),
    rule(
        _NUMBERED,
        lambda match: f"{NUMBERED[match['word'] or match['bare']]} ",
        first_words(f"{word}." for word in NUMBERED),
    ),
    rule(r"(?<=\d(?:st|nd|rd|th)[ ])[Ff]l\b\.?", "floor", ("fl",)),
    rule(r"\bpop\.[ ](?=\d{3}|\d{1,3},\d)", "population ", "pop."),
    rule(r"(?<=[(\d][ ])inc\.(?=[ ](?:VAT|tax|GST|p&p|postage|[a-z]))|(?<=\()inc\.(?=[ ])", "including", "inc."),
    rule(r"(?<![\w/])(?<!\d[ ])(?P<word>[Ww])/(?=[a-z]{3,12}\b(?!/))", r"\g<word>ith ", ("w/", "W/")),
    rule(r"(?<!\w)[Ww]/[Ll](?=[ ](?:record|ratio))", "win-loss", ("w/l", "W/L")),
    rule(
        r"(?<!:\d\d[ ])(?:(?<=\d[ ])|(?<=\d[KMBTkmbn%][ ])|(?<=\d[bm]n[ ]))[Ee]st\.(?=[ ]?[,;)]|\s*$)",
        "estimated",
        "st.",
    ),
    rule(rf"\b(?P<word>[Aa])vail\.(?=[ ](?:\d|{dates.MONTH}))", _available, "vail."),
    rule(r"(?<=[ap]m[ ])est(?=[ .,;)]|$)", "E S T", "est"),
    rule(r"\b(?P<word>[Rr])ev\.(?=[ ](?:(?:to|of)[ ])?[$€£])", r"\g<word>evenue", ("rev",)),
    rule(r"\borig\.(?=[ ](?:price|cost|version|copy|owner|box|packaging|date|plan)\b)", "original", "orig."),
    rule(r"\b[Oo]f[ ]Ed\.(?=[,;)]|[ ][a-z])", "of Education", "Ed."),
    rule(r"\bPs\.[ ](?=\d{1,3}(?!\d))", "Psalm ", "Ps."),
    rule(
        r"(?P<count>\d[ ][a-z]{3,14}s)/(?P<per>min|hr|day|week|month|year|person|night|nostril)\b(?!/)",
        lambda match: f"{match['count']} per {_RATES.get(match['per'], match['per'])}",
        "/",
    ),
    rule(r"(?<=\bper[ ])gal\.", "gallon", "gal."),
    rule(r"(?<!\w)incl\b\.?(?=\s*(?:[),;:]|$))", "included", ("incl",)),
    rule(r"(?<=\w[ ])incl\b\.?(?=[ ](?:in[ ](?:the|this|rate|price|rent|fee|cost)|with)\b)", "included", ("incl",)),
    rule(r"(?<=\bnot[ ])incl\b(?=[ ][a-z])", "including", ("incl",)),
    rule(r"(?<![\w/])[uU]/(?=\d{1,2}s?(?![\w/]))", "under ", ("u/", "U/")),
    rule(r"(?<!\w)AA(?P<third>A)?(?=[ ](?:cells?|(?:rechargeable[ ])?batter(?:y|ies)|size))", _battery, "AA"),
)
"""Run before numbers are put into words."""

RULES: tuple[Rule, ...] = (
    rule(_HALF, _half, (". m.", ".m.")),
    rule(r"(?P<before>^|[a-z][ ])(?P<initial>[A-Z])\.(?=[ ][a-z]{3})", r"\g<before>\g<initial>", "initial"),
    rule(r"(?<![\w.])ST\.?(?=[ ][A-Z]{4})", "Saint", ("st",)),
    rule(_VERSUS, r"\g<first> versus ", (" v. ", " v ")),
    rule(_COUNTY, "County", "Co."),
    rule(
        r"(?<=,[ ])(?P<word>Ont|Que|Alta|Sask)\b\.?",
        lambda match: _PROVINCES[match["word"]],
        ("ont", "que", "alta", "sask"),
    ),
    rule(
        r"\b(?P<before>(?:[Aa]|the|my|your|this|that)[ ])pkg(?P<many>s?)(?![\w\-])",
        r"\g<before>package\g<many>",
        ("pkg", "pkgs"),
    ),
    rule(
        r"\b(?P<before>(?:[Aa]|the|our|next|team|staff|board|[Dd]epartment)[ ])mtg(?P<many>s?)"
        r"(?![\w\-]|[ ](?:rates?|arena|cards?))(?:\.(?=[ ][a-z]))?",
        r"\g<before>meeting\g<many>",
        ("mtg", "mtgs"),
    ),
    rule(_NEAR, "near", ("nr",)),
    rule(r"(?<=\w[ ])[Rr]e:(?=[ ])", "regarding", ("re:", "Re:")),
    rule(_SUBJECT, _subject, ("re", "fw", "fwd")),
    rule(
        r"(?<=[\w&][ ])(?P<word>Ltd|Utd|Plc)(?![\w.])",
        lambda match: COMPANIES[match["word"]],
        ("ltd", "utd", "plc"),
    ),
    rule(_STREET, _street, first_words(STREETS)),
    rule(_COMPANY, _company, first_words(COMPANIES)),
    rule(_COMPANY_BEFORE, lambda match: COMPANIES[match["word"]], first_words(COMPANIES)),
    rule(_WEEKDAY, _weekday, weekdays.SHORT_DAYS),
    rule(_MONTH, lambda match: dates.month_name(match["word"]) + stop(match), dates.SHORT_MONTHS),
    rule(_ESTIMATED, r"\g<word>stimated", "st."),
    rule(r"(?<![\w'./])u(?![\w'.]\w|\w)", "you", (" u", "u ")),
    rule(_WORD, _word, first_words(_ALL_WORDS)),
    rule(r"(?<!\w)mm[ ]?Hg(?!\w)", "millimeters of mercury", ("mmHg", "mm Hg")),
    rule(_DEGREE, lambda match: letters.spell(match["word"].replace(".", "")) + stop(match), ("A.", "D.", "S.")),
    rule(_DOTTED, _dotted, "initial"),
    rule(_INITIALS, _initials, "initial"),
)
