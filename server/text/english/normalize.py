"""Normalizes English text into words. The order of the rules matters: each rule sees the output of the ones before."""

from __future__ import annotations

from collections.abc import Iterator

from server.text import marks
from server.text.english import (
    abbreviations,
    abbreviations_in_context,
    academic,
    addresses,
    arrows,
    attributive,
    bible,
    capitals,
    chat,
    chemistry,
    chess,
    citations,
    code,
    codes,
    contractions,
    dates,
    directions,
    fractions,
    keys,
    maths,
    medical,
    money,
    music,
    network,
    paths,
    phones,
    plain_numbers,
    products,
    ranges,
    roman,
    shorthand,
    sizes,
    state_abbreviations,
    symbols,
    tidy,
    time_zones,
    times,
    titles,
    typed_formulas,
    unit_notation,
    units,
    versions,
    web,
    weekdays,
    years,
)
from server.text.english.abbreviation_words import COMPANIES, NUMBERED, STREETS
from server.text.english.general_abbreviations import WORDS
from server.text.english.rules import Rules, first_words
from server.text.english.title_words import TITLES
from server.text.patterns import lazy

RULES = Rules(
    *citations.EARLY,
    *music.RULES,
    *web.RULES,
    *paths.RULES,
    *arrows.RULES,
    *network.RULES,
    *chess.RULES,
    *versions.EARLY,
    *code.RULES,
    *roman.EARLY,
    *tidy.EARLY,
    *bible.RULES,
    *citations.RULES,
    *chat.RULES,
    *medical.RULES,
    *academic.RULES,
    *state_abbreviations.RULES,
    *shorthand.RULES,
    *abbreviations_in_context.RULES,
    *abbreviations.EARLY,
    *symbols.EARLY,
    *ranges.EARLY,
    *products.RULES,
    *dates.RULES,
    *weekdays.RULES,
    *times.RULES,
    *time_zones.RULES,
    *phones.RULES,
    *chemistry.RULES,
    *attributive.RULES,
    *directions.RULES,
    *codes.RULES,
    *addresses.RULES,
    *money.RULES,
    *years.EARLY,
    *plain_numbers.EARLY,
    *sizes.EARLY,
    *unit_notation.RULES,
    *units.RULES,
    *sizes.RULES,
    *versions.RULES,
    *maths.RULES,
    *fractions.RULES,
    *ranges.RULES,
    *roman.RULES,
    *titles.RULES,
    *abbreviations.RULES,
    *years.RULES,
    *plain_numbers.RULES,
    *keys.RULES,
    *symbols.RULES,
    *tidy.QUOTES,
    *capitals.RULES,
    *tidy.RULES,
)
FIRST = Rules(
    *chat.FIRST,
    *contractions.FIRST,
    *symbols.FIRST,
    *keys.FIRST,
    *capitals.EARLY,
    *dates.FIRST,
    *plain_numbers.FIRST,
    *chemistry.FIRST,
    *typed_formulas.RULES,
    *maths.FIRST,
)
"""Rules that run first. They bring digits into the form that the other rules expect."""
_PARAGRAPH = lazy(r"\n[^\S\n]*\n\s*")
_LONGEST_PIECE = 1000
"""Maximum characters that the rules see at a time, so that the cost of any text is linear in its length."""
_MORE = "feat Pop Amend Mk Conf Pub lg Term Ct Ldr Cal Ore Bd Fed Lat def Adj".split()
_ABBREVIATIONS = (
    first_words((*TITLES, "Rt", "mi", *_MORE, *NUMBERED, *STREETS, *COMPANIES, *WORDS))
    | weekdays.SHORT_DAYS
    | dates.MONTH_WORDS
    | academic.SHORT_SUBJECTS
    | state_abbreviations.SHORT_STATES
)
_FIRST_WORDS = (
    "After|All|And|Another|As|At|Because|But|By|Each|For|From|He|Her|Here|His|How|However|If|In|It|Its|Let|My|No|Not|Now"
    "|On|Or|Our|She|So|That|The|Their|Then|There|These|They|This|Those|To|We|What|When|Where|Which|Who|Why|With|Yes|You|Your"
)
"""Words that begin a sentence: a single letter before them is no initial."""
_LETTERED = "answer option vitamin hepatitis generation type grade group team plan point"
_AFTER_LETTERED = "|".join(rf"(?<={word[1:]}[ ].)" for word in _LETTERED.split())
"""Words before a letter that is no initial: Vitamin D."""
_SENTENCE_END = lazy(
    r"(?:(?P<word>(?<![A-Za-z])[A-Za-z]{2,40})|[a-z]'[a-z]{1,2}|[\d%)]"
    rf"|[A-Z](?<=[a-z][ ].)(?=\.\s)(?!\.\s+[A-Z]\.)(?:(?=\.\s+(?:{_FIRST_WORDS})\b)|{_AFTER_LETTERED}))"
    r"(?P<mark>[.!?]+)[\"')]*\s+(?=[\"'(]*[A-Z])"
)


code_in_words = code.quoted_in_words


def normalize(text: str) -> str:
    """Return ``text`` in words. Paragraphs stay separated by an empty line."""
    paragraphs = (_paragraph(paragraph) for paragraph in _PARAGRAPH.split(code_in_words(text)))
    return "\n\n".join(filter(None, paragraphs))


def _paragraph(paragraph: str) -> str:
    return tidy.finish(in_words(paragraph))


def in_words(paragraph: str) -> str:
    """Return a paragraph in words, without adding a capital at its beginning or a full stop at its end."""
    parts = [" ".join(filter(None, map(words, sentences(part)))) for part in paragraph.split(marks.SENTENCE_END)]
    return " ".join([*filter(None, parts[:1]), *map(tidy.opened, filter(None, parts[1:]))])


def words(piece: str) -> str:
    """Return a sentence, or a part of one, in words, without adding a capital or a full stop."""
    return tidy.tidy(RULES.apply(FIRST.apply(piece)))


def sentences(text: str) -> Iterator[str]:
    """Split ``text`` where a sentence certainly ends, so that rules see one sentence at a time.

    A full stop after an abbreviation does not end a sentence. A sentence of more than ``_LONGEST_PIECE`` characters is
    cut between words, and a word of more than half of that anywhere.
    """
    start = 0
    for end in sentence_ends(text):
        yield from _short(text[start:end].strip())
        start = end
    yield from _short(text[start:].strip())


def sentence_ends(text: str) -> list[int]:
    """Return the index after each sentence of ``text`` that certainly ends before the end of the text."""
    return [
        match.end()
        for match in _SENTENCE_END.finditer(text)
        if (match["mark"] != "." or match["word"] is None or match["word"].lower() not in _ABBREVIATIONS)
        and not roman.is_item(match["word"] or "", text)
        and not (match["word"] is None and chess.NEXT_MOVE.match(text, match.end()))
    ]


def _short(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > _LONGEST_PIECE:
        end = text.rfind(" ", start + _LONGEST_PIECE // 2, start + _LONGEST_PIECE) + 1 or start + _LONGEST_PIECE
        yield text[start:end].strip()
        start = end
    yield text[start:]
