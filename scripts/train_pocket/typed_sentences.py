"""Generates sentences as people type them: names, rare words, acronyms, addresses, dialogue, lists, very short ones.

Each file in ``grammar/typed`` is a kind, with templates as in ``grammar_sentences``. A backslash and an n are a line
break.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

from scripts.train_pocket.grammar_sentences import FOLDER, PARTS, Fill, Grammar, choose, common_words, cycle, word_lists
from scripts.train_pocket.text_sources import lines

_TYPED = FOLDER / "typed"
KINDS = tuple(sorted(file.stem for file in _TYPED.glob("*.txt")))
"""The kinds of sentences."""
_RARE = {"rare": "noun", "rare_verb": "verb", "rare_adjective": "adj", "rare_adverb": "adv"}
_RARE_WORD = re.compile(r"[a-z]{5,15}")
_CLAUSE_START = re.compile(
    r"(?:The|A|An|It|He|She|They|We|You|There|This|That|My|His|Her|Their|Our|Some|No|All|Every|One) "
)
_CLAUSE = re.compile(r"[A-Z][A-Za-z', ]{10,60}[.!?]")
_ENGLISH_NAMES = 0.75
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DOMAINS = "example acme openmaps dailynews gardenclub cityhall bookworm weather mybank musicbox travelnow".split()
_ENDINGS = ".com .org .net .co.uk .io .de .edu".split()
_FOLDERS = "docs about news help login 2024 shop images contact downloads".split()
_FILES = "report notes config photo invoice main index readme backup summary".split()
_EXTENSIONS = ".pdf .txt .yaml .py .jpg .docx .csv .md .zip .json".split()
_HASHTAGS = "#MondayMood #ThrowbackThursday #NoFilter #CatsOfInstagram #travel #BookClub #OpenSource".split()


def typed_grammars(folder: Path, sentences: list[str], source: Random) -> dict[str, Grammar]:
    """Return a grammar for each of ``KINDS``.

    folder: with the raw texts. sentences: clean ones, from which clauses are taken.
    """
    fills = {**word_lists(FOLDER / "typed_words.yaml"), **_name_fills(folder / "names"), **_code_fills()}
    fills |= _word_fills(folder / "wordnet" / "dict", folder / "lexicon", source) | _clause_fills(sentences)
    common = {slot: common_words(folder / "wordnet" / "dict" / f"index.{part}") for slot, part in PARTS.items()}
    return {kind: Grammar(common, source, _templates(kind), fills) for kind in KINDS}


def typed(grammar: Grammar) -> Iterator[str]:
    """Yield sentences endlessly, with line breaks."""
    return (sentence.replace("\\n", "\n") for sentence in grammar.sentences())


def _templates(kind: str) -> list[str]:
    return (_TYPED / f"{kind}.txt").read_text(encoding="utf-8").splitlines()


def _name_fills(folder: Path) -> dict[str, Fill]:
    lists = {file.stem: file.read_text(encoding="utf-8").splitlines() for file in folder.glob("*.txt")}
    own = word_lists()

    def name(part: str, slot: str) -> Fill:
        def fill(source: Random) -> str:
            if source.random() < _ENGLISH_NAMES:
                return own[slot](source) if source.random() < 0.4 else source.choice(lists[f"{part}_english"])
            return source.choice(lists[f"{part}_other"])

        return fill

    first, last = name("first", "first_name"), name("last", "surname")
    return {
        "first": first,
        "last": last,
        "person": lambda source: f"{first(source)} {last(source)}" if source.random() < 0.8 else last(source),
        "place_name": lambda source: own["city"](source) if source.random() < 0.35 else source.choice(lists["cities"]),
    }


def _code_fills() -> dict[str, Fill]:
    def letters(source: Random, low: int, high: int) -> str:
        return "".join(source.choice(_ALPHABET) for _ in range(source.randint(low, high)))

    def digits(source: Random, low: int, high: int) -> str:
        return "".join(source.choice("0123456789") for _ in range(source.randint(low, high)))

    def code(source: Random) -> str:
        parts = [source.choice((letters, digits))(source, 1, 3) for _ in range(source.randint(2, 3))]
        return source.choice(("", "-")).join([letters(source, 1, 2), *parts])

    acronym = word_lists(FOLDER / "typed_words.yaml")["acronym"]

    def any_acronym(source: Random) -> str:
        return acronym(source) if source.random() < 0.6 else letters(source, 2, 4)

    def domain(source: Random) -> str:
        return source.choice(_DOMAINS) + source.choice(_ENDINGS)

    return {
        "acronym": any_acronym,
        "acronym_many": lambda source: letters(source, 2, 3) + "s",
        "letter": lambda source: source.choice(_ALPHABET),
        "spelled": lambda source: source.choice((", ", "-", " ")).join(letters(source, 3, 7)),
        "initial": lambda source: f"{letters(source, 1, 1)}.",
        "initials": lambda source: " ".join(f"{letter}." for letter in letters(source, 2, 3)),
        "code": code,
        "code_short": lambda source: source.choice(
            (letters(source, 1, 2) + digits(source, 1, 4), digits(source, 1, 2) + letters(source, 1, 1))
        ),
        "url": lambda source: (
            source.choice(("", "", "www.", "https://"))
            + domain(source)
            + source.choice(("", f"/{source.choice(_FOLDERS)}"))
        ),
        "email": lambda source: (
            f"{source.choice(_FILES)}{source.choice(('', '.', '_'))}{source.choice(_FOLDERS)}@{domain(source)}"
        ),
        "file_name": lambda source: source.choice(_FILES) + source.choice(_EXTENSIONS),
        "hashtag": lambda source: source.choice(_HASHTAGS),
        "digits4": lambda source: digits(source, 4, 4),
    }


def _word_fills(index: Path, lexicon: Path, source: Random) -> dict[str, Fill]:
    """Return fills that cycle through word lists, each in its own random order.

    They are the single words of WordNet by part of speech and those of the lexicon, and words with two readings.
    """
    words = {name: lines(lexicon / f"{name}.txt") for name in ("words", "proper", "noun_readings", "verb_readings")}
    known = set(words["words"])
    fills = {}
    for slot, part in _RARE.items():
        entries = [line.split(" ", 1)[0] for line in lines(index / f"index.{part}") if line[:1] != " "]
        matching = [word for word in entries if _RARE_WORD.fullmatch(word)]
        fills[slot] = cycle([word for word in matching if word in known] or matching, source)
    return fills | {
        "entry": cycle(words["words"], source),
        "proper": cycle(words["proper"], source),
        "noun_reading": cycle(words["noun_readings"], source),
        "verb_reading": cycle(words["verb_readings"], source),
    }


def _clause_fills(sentences: list[str]) -> dict[str, Fill]:
    """Return fills from sentences: whole, without the last mark, and that also in lower case."""
    clauses = [sentence[:-1] for sentence in sentences if _CLAUSE.fullmatch(sentence)]
    inner = [clause[0].lower() + clause[1:] for clause in clauses if _CLAUSE_START.match(clause)]
    return {"sentence": choose(sentences), "clause": choose(clauses), "clause_low": choose(inner)}
