"""Words in capitals: acronyms as words or letters, stressed words and lines in lower case; USB-C without its hyphen."""

from __future__ import annotations

import re

from server.text.english import dates, letters, roman, weekdays
from server.text.english.abbreviation_words import COMPANIES, NUMBERED, STREETS
from server.text.english.acronym_words import CUSTOM, LETTERS, SHORT_WORDS, WORDS
from server.text.english.addresses import STATES
from server.text.english.chat_words import CHAT
from server.text.english.general_abbreviations import WORDS as ABBREVIATIONS
from server.text.english.rules import Rule, alternatives, first_words, rule
from server.text.english.title_words import TITLES
from server.text.english.unit_words import UNITS
from server.text.patterns import lazy

_LINE = r"[A-Z](?<![\w'].)[A-Z']*(?:[ ,;:!?.\"\-—()]{1,4}[A-Z][A-Z']*)+(?![\w'])"
_ALONE = r"(?P<word>[A-Z](?<![\w'].)[A-Z]{1,39})(?P<tail>s|'s|'S|'[A-Z]{1,2}|s'(?!\w)|ed|ing|'d)?(?![\w])"
_ALL_CAPITALS = (
    r"\A(?!.*[a-z]{3})(?=.*[A-Z]{2}[^a-z]+[A-Z]{2})(?:[^a-z]|(?<!\w)[a-z]{1,2}(?!\w)|(?<=\d)[a-z]{1,2}(?!\w))*\Z"
)
"""A text without words in lower case."""
_MIXED = r"(?<![\w'])(?P<head>[A-Za-z]?[a-z]+|[a-z])(?P<letters>[A-Z]{2,6})(?P<tail>s?)(?![\w])"
_MIXED_AHEAD = r"(?P<letters>[A-Z](?<![\w'].)[A-Z]{1,4})(?P<tail>[A-Z][a-z]{2,})(?!\w)"
_SPECIAL_WORDS = {
    "SaaS": "sass",
    "PaaS": "pass",
    "IaaS": "eye as",
    "IMDb": "I M D B",
    "IoT": "I O T",
    "WiFi": "Wi-Fi",
    "Wifi": "Wi-Fi",
    "wifi": "Wi-Fi",
    "VoIP": "voyp",
    "OAuth": "O auth",
    "vLLM": "V L L M",
    "eSIM": "e sim",
    "mRNA": "M R N A",
    "tRNA": "T R N A",
    "DoD": "D O D",
    "DoJ": "D O J",
    "PoC": "P O C",
    "RoI": "R O I",
    "MoE": "M O E",
    "BoE": "B O E",
    "MPs": "M P's",
    "pH": "P H",
    "wi-fi": "Wi-Fi",
    "WI-FI": "Wi-Fi",
    "NVMe": "N V M E",
    "YoY": "year over year",
    "QoQ": "quarter over quarter",
    "MoM": "month over month",
}
_SIGN_FOR_LETTER = r"""
    (?<![\w$])
    (?: (?P<head>[A-Z][a-z]{0,9})\$(?P<tail>[a-z]{1,9}|AP) | (?P<first>[B-DF-HJ-NP-TV-Z])!(?P<last>[a-z]{2,3}) )
    (?![\w$!])
"""
"""Ke$ha, P!nk."""
_UNCHANGED = "OAuth LaTeX DevOps ViT LoRA".split()
"""Words with several capitals that are read as they are written."""
_SPECIAL = rf"(?<![\w'])(?P<word>{alternatives([*_SPECIAL_WORDS, *_UNCHANGED])})(?P<tail>'?s)?(?!\w)"
_PARTNERS = "EU|UK|UN|NATO|CHINA|RUSSIA|IRAN|JAPAN|CANADA|MEXICO|UKRAINE|ISRAEL|INDIA|CUBA|KOREA|FRANCE|GERMANY|TAIWAN"
_OF_COUNTRY = (
    "TROOPS|ARMY|NAVY|FORCES|MILITARY|SOLDIERS|MARINES|AIRSTRIKES?|STRIKES?|PRESIDENT|SENATE|SENATOR|HOUSE|CONGRESS|GOVERNMENT|"
    "SUPREME|COURT|JUDGE|ELECTIONS?|VOTERS|ECONOMY|DOLLAR|STOCKS|SHARES|MARKETS?|JOBS|INFLATION|TARIFFS?|TRADE|SANCTIONS|BORDER|"
    "OPEN|OFFICIALS?|EMBASSY|ENVOY|CITIZENS?|CITIES|STATES?|TREASURY|FED|SECRETARY|DIPLOMATS?|VISAS?|TEAM|WOMEN|MEN|COMPANY|"
    "COMPANIES|FIRMS?|RATES?|RETAIL|SALES|HOUSING|BANKS?|AIRLINES?|FACILIT(?:Y|IES)|PROPERTY|SOIL|WATERS|PERSONNEL|CUSTOMS|BASES?"
)
_SEE_YOU = r"\b(?P<verb>SEE|LOVE|THANK|MISS|ARE|CAN|DO|DID|WILL|IF|FOR|WITH)[ ]U(?![\w.'-]|[ ](?:OF|[A-Z])\b)"
_TECHNOLOGY = (
    r"\bIT(?= (?:CHIEF|DEPARTMENT|DEPT|TEAM|SUPPORT|WORKERS?|JOBS?|STAFF|MANAGER|SECTOR|FIRMS?|OUTAGE|SYSTEMS?|GIANT"
    r"|INDUSTRY|SERVICES|SPECIALIST|ADMIN|HELP)\b)"
)
"""Information technology in a line of capitals."""
_AVERAGE_BEFORE = lazy(r"\bpoint [a-z]+ [a-z]+ $")
_AVERAGE_AFTER = lazy(r" (?:of [a-z]+ point|leader|title)\b")
_COUNTRY = lazy(
    rf"(?:(?<=^)|(?<=\bTHE ))US(?= )|(?<=\bEX-)US\b"
    rf"|\bUS(?=-[A-Z]{{4}}| (?:{_OF_COUNTRY})\b|(?: AND |, |-)(?:{_PARTNERS})\b)"
    r"|(?:(?<=\bEU)|(?<=\bUK)|(?<=\bUN)|(?<=CHINA)|(?<=RUSSIA)|(?<=\bIRAN)|(?<=JAPAN))(?P<link>, | AND |-)US\b"
    rf"|{_TECHNOLOGY}|\bWHO(?= (?:WARNS|URGES|DECLARES|CONFIRMS|RECOMMENDS|APPROVES|CHIEF|OFFICIALS?|REPORT)\b)"
    r"|(?<!TRUST )(?<!BELIEVE )(?<!FAITH )(?<!JOIN )\bIN US(?= [A-Z]{3})"
)
"""Letters that could be a word, in a line of capitals: the country in "US TROOPS" and "EU, US AGREE", "WHO WARNS"."""
_TEST = r"""
    (?:(?<=\b[Tt]he[ ])|(?<=\b[Mm]y[ ])|(?<=\b[Hh]er[ ])|(?<=\b[Hh]is[ ])|(?<=\b[Yy]our[ ]))SATs?(?![\w'\-]|[ ]nav\b)
  | (?<![\w'\-])SAT(?=[ ](?:and|or|&)[ ](?:the[ ])?ACT\b)
  | (?: (?<=[Tt]ake[ ]the[ ]) | (?<=[Tt]aking[ ]the[ ]) | (?<=[Tt]ook[ ]the[ ]) | (?<=SAT[ ]or[ ]) | (?<=SAT[ ]and[ ])
      | (?<=SAT[ ]or[ ]the[ ]) | (?<=SAT[ ]and[ ]the[ ]) ) ACTs?(?![\w'\-])
  | (?<![\w'\-]) (?:SAT|ACT)
    (?=(?:[/ ](?:SAT|ACT))?[ ](?:scores?|exams?|tests?|prep|practice|math|word|results|two)\b)
"""
"""Tests before college."""
_OF_LOGIC = (
    r"operat\w+|gate|clause|condition|keyword|function|symbol|of|or|and|option|branch|part|case|expression|statement|query"
    r"|logic"
)
"""Words after which "the OR" is an operator, not the operating room."""
_OPERATING_ROOM = rf"(?<=\b[Tt]he[ ])OR(?!\w|'\w|[ ](?:{_OF_LOGIC})\b)"
_SPELLED_HYPHENS = r"""
    [A-Z-]
    (?: (?<=\b[A-Z]) (?:(?<=[B-Z])|[ ][A-Z]|(?=[ ][AEFHILMNORSX])) [ ][A-Z] (?:-\w+)+  # not the article of "A U-turn"
      | (?<=\w-) (?=[A-Z][ ][A-Z]\b)
    )
"""
"""Letters that are spelled, and words that a hyphen joins to them: "U S B-C", "ex-C I A"."""
_SMALL_LETTER = lazy(r"-[a-z](?!\w)")
_FEW = 2
_WORD = lazy(r"[A-Z][A-Z']*")
_LIST = lazy(r"[A-Z]{2,5}(?:, [A-Z]{2,5})+(?:,? (?:AND|OR) [A-Z]{2,5})?[.!?]?")
"""A list, of which each word can be an acronym: PIN, SIM, LED."""
_SEPARATE = lazy(r"(?<![\w'@/\\#&])(?<!\w[._])[A-Z][A-Z']*(?![\w@/\\&]|[._]\w)")
"""A word that is no part of an address or a code."""
_ABBREVIATED = frozenset(
    name.lower() for name in (*TITLES, *STREETS, *COMPANIES, *NUMBERED) if len(name) > 1 and not name.isupper()
)
"""Abbreviations that other rules know with a capital only."""
_NAMES = dates.MONTH_WORDS | frozenset(map(str.lower, roman.MONARCHS))
"""Names that other rules know with a capital only."""
_SENTENCE_START = lazy(r"(?:^|[.!?] )[a-z]")
_VOWEL, _AMOUNT_BEFORE = lazy(r"[aeiou]"), lazy(r"(?:\d ?|\bPER |/)$")
"""What shows that letters are a unit, and no name such as that of an airline."""
_WITHOUT_APOSTROPHE = {"IM": "I'm", "IVE": "I've", "DONT": "don't", "CANT": "can't"}
_NUMBER_FOLLOWS, _ZIP_FOLLOWS = lazy(r"\.?[ ]\d"), lazy(r"[ ]\d{5}(?!\d)")
_NAME_FOLLOWS, _TIME_FOLLOWS = lazy(r"\.?[ ][A-Z]"), lazy(r"\.?,?[ ]\d|[-–/]")
_BEFORE_NAME = frozenset("mr mrs dr prof capt sgt col lt".split())


def _country(match: re.Match[str]) -> str:
    return match[0].replace("US", "U S") if "US" in match[0] else " ".join(match[0])


def _line(match: re.Match[str]) -> str:
    """Return several words in capitals as ordinary words, if any of them is an ordinary word and this is no list."""
    words = _WORD.findall(match[0])
    long = [word for word in words if len(word) > 1]
    if _LIST.fullmatch(match[0]) or len(words) > 2 * len(long):  # or letters that are spelled
        return match[0]
    if (len(long) < _FEW and len(words) < _FEW + 1) or not any(map(_ordinary, long)):
        return match[0]
    if all(word in LETTERS or word in CUSTOM for word in long):
        return match[0]
    text = _COUNTRY.sub(_country, match[0])
    spoken = _WORD.sub(lambda word: _in_line(word[0], words), text)
    return spoken[0].upper() + spoken[1:] if _starts(match) else spoken


def _sentence(match: re.Match[str]) -> str:
    """Return a text in capitals with its ordinary words in lower case, which the other rules expect."""
    if _LIST.fullmatch(match[0].strip()):
        return match[0]
    text = _COUNTRY.sub(_country, match[0])
    words = _SEPARATE.findall(text)
    if sum(map(_ordinary, words)) + _abbreviated(text, words) < _FEW:
        return text
    title = False

    def plain(match: re.Match[str]) -> str:
        nonlocal title
        word, after_title = match[0], title
        lower = word.lower()
        title = lower in _BEFORE_NAME and _NAME_FOLLOWS.match(text, match.end()) is not None
        if word in STATES and _ZIP_FOLLOWS.match(text, match.end()):
            return word
        if lower in dates.MONTH_WORDS and _NUMBER_FOLLOWS.match(text, match.end()):
            return word.capitalize()
        if lower in CHAT or lower == "xmas":
            return lower
        if word in _WITHOUT_APOSTROPHE:
            return _WITHOUT_APOSTROPHE[word]
        if lower in SHORT_WORDS:
            return (
                word.capitalize() if lower in weekdays.SHORT_DAYS and _TIME_FOLLOWS.match(text, match.end()) else lower
            )
        if word.startswith("I'") or lower in weekdays.SHORT_DAYS or lower in _NAMES or title:
            return word.capitalize()
        if lower in _ABBREVIATED and text[match.end() : match.end() + 1] == ".":
            return word.capitalize()
        if len(word) == 1 or roman.NUMERAL.fullmatch(word) or word in LETTERS or word in CUSTOM or word in WORDS:
            return word
        if lower in ABBREVIATIONS or f"{lower}." in ABBREVIATIONS:
            return lower
        if lower in UNITS and (
            _VOWEL.search(lower) or _AMOUNT_BEFORE.search(text, max(0, match.start() - 4), match.start())
        ):
            return lower
        spoken = letters.emphasized(word)
        if spoken != lower:  # a first name, or letters that later rules spell
            return word if " " in spoken else spoken
        street = text[match.end() : match.end() + 6].strip(" .,")
        return word.capitalize() if after_title or street.capitalize() in STREETS else lower

    return _SENTENCE_START.sub(lambda match: match[0].upper(), _SEPARATE.sub(plain, text))


def _abbreviated(text: str, words: list[str]) -> int:
    """Return how many of ``words`` are words of chats, or abbreviations with a full stop, unless all are."""
    short = sum(word.lower() in CHAT or (word.lower() in _ABBREVIATED and f"{word}." in text) for word in words)
    return short if short > 1 or short < len(words) else 0


def _mc(match: re.Match[str]) -> str:
    return f"{match['mc']}{match['name'].capitalize()}{(match['tail'] or '').lower()}"


def _starts(match: re.Match[str]) -> bool:
    before = match.string[: match.start()].rstrip("\"'( ")
    return not before or before[-1] in ".!?:\n"


def _ordinary(word: str) -> bool:
    lower = word.lower()
    if lower in SHORT_WORDS:
        return True
    plain = word not in LETTERS and word not in CUSTOM and len(word) > 3
    return plain and letters.pronounceable(lower.replace("'", ""))


def _in_line(word: str, words: list[str]) -> str:
    if len(word) == 1:
        return word if word == "I" or len(words) < _FEW else word.lower() if word == "A" else word
    if word.startswith("I'"):
        return f"I{word[1:].lower()}"
    stem, apostrophe, tail = word.partition("'")
    return letters.emphasized(stem) + apostrophe + tail.lower() if stem.lower() not in SHORT_WORDS else word.lower()


def _alone(match: re.Match[str]) -> str:
    word, tail = match["word"], match["tail"] or ""
    if tail and f"{word}{tail}".lower() in SHORT_WORDS:
        return f"{word}{tail}".lower()
    if tail.isupper() and tail != "'S":
        return f"{word}{tail}".lower()
    spoken = letters.acronym(word)
    spoken = spoken[0].upper() + spoken[1:] if _starts(match) else spoken
    if tail in ("s", "'s", "'S", "s'") and " " in spoken:
        return f"{spoken}'s"
    return spoken + tail.lower()


def _mixed(match: re.Match[str]) -> str:
    head = match["head"]
    spoken = letters.spell(match["letters"]) + ("'s" if match["tail"] else "")
    return f"{letters.spell(head) if len(head) == 1 else head} {spoken}"


def _sign_for_letter(match: re.Match[str]) -> str:
    """Return the word: Kesha, Pink, Asap. In capitals "ASAP" would be letters."""
    return f"{match['head']}s{match['tail'].lower()}" if match["head"] else f"{match['first']}i{match['last']}"


def _test(match: re.Match[str]) -> str:
    return letters.spell_plural(match[0][:-1]) if match[0].endswith("s") else letters.spell(match[0])


def _special(match: re.Match[str]) -> str:
    return _SPECIAL_WORDS.get(match["word"], match["word"]) + (match["tail"] or "")


def _without_hyphens(match: re.Match[str]) -> str:
    return _SMALL_LETTER.sub(lambda letter: letter[0].upper(), match[0]).replace("-", " ")


def _earned_runs(match: re.Match[str]) -> str:
    """Return the letters of the average of a pitcher, "a one point three five ERA"; else it is the word."""
    average = _AVERAGE_BEFORE.search(match.string, 0, match.start()) or _AVERAGE_AFTER.match(match.string, match.end())
    return "E R A" if average else match[0]


EARLY: tuple[Rule, ...] = (
    rule(r"(?:(?<=^)|(?<=[.!?][ ]))AM(?=[ ]I\b)", "am", ("AM I",)),
    rule(
        r"\b(?P<verb>SEE|LOVE|THANK|MISS|ARE|CAN|DO|DID|WILL|IF|FOR|WITH)[ ]U(?![\w.'-]|[ ]OF\b)", r"\g<verb> YOU", " U"
    ),
    rule(_SIGN_FOR_LETTER, _sign_for_letter, ("$", "!")),
    rule(_ALL_CAPITALS, _sentence, "capitals"),
)
"""Run before all other rules."""

RULES: tuple[Rule, ...] = (
    rule(r"(?<=\()(?:OR|IT|IN|US|AM|AN|AS|ME)(?=\))", lambda match: letters.spell(match[0]), ("(",)),
    rule(r"(?<![\w'])ERA(?!\w|'\w)", _earned_runs, ("era",)),
    rule(_SPECIAL, _special, first_words((*_SPECIAL_WORDS, *_UNCHANGED))),
    rule(r"(?<!\w)(?P<mc>Ma?c)(?P<name>[A-Z]{3,20})(?P<tail>'S)?(?!\w)", _mc, ("Mc", "Mac")),
    rule(r"^IT(?=[ ](?:was|seemed|took|came)[ ].{40})", "It", ("it",)),
    rule(_TEST, _test, ("sat", "act", "sats", "acts")),
    rule(_OPERATING_ROOM, "O R", ("or",)),
    rule(_LINE, _line, "capitals"),
    rule(_ALONE, _alone, "capitals"),
    rule(r"(?P<letter>[B-HJ-Z])(?<![\w'].)(?P<name>[B-Z][aeiou])(?!\w)", r"\g<letter> \g<name>", "capitals"),
    rule(_MIXED, _mixed, "hump"),
    rule(_MIXED_AHEAD, lambda match: f"{letters.spell(match['letters'])} {match['tail']}", "capitals"),
    rule(r"(?<![\w.])OK(?!\w)", "okay", "ok"),
    rule(_SPELLED_HYPHENS, _without_hyphens, "-"),
)
