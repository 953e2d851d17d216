"""Cleans and filters sentences."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

MAX_WORDS = 40
_MAX_CHARACTERS = 200
_SPELLINGS = str.maketrans(
    {"‘": "'", "’": "'", "`": "'", "´": "'", "“": '"', "”": '"', "„": '"', "–": "—", "…": "...", "\u00a0": " ", "_": ""}
)
_ALLOWED = re.compile(r"[A-Za-zÀ-ÖØ-öø-ÿ0-9 .,;:!?'\"()—$£€%&/+-]+")
_MAX_LONG_CHARACTERS = 450
_EVERYDAY_WORDS = 2
"""Maximum words of a text like "Good morning." that may occur in the training and in the judge's texts."""
_ALLOWED_LONG = re.compile(r"[A-Za-zÀ-ɏẠ-ỹ .,;:!?'\"()—-]+")
_FOREIGN = re.compile(r"[À-ÖØ-öø-ÿ]")
_END = re.compile(r"[.!?][\"')]*$")
_CAPITALS = re.compile(r"\b[A-Z]{2,}\b")
_UNREADABLE = re.compile(
    r"https?:|www\.|\.com|[a-z][A-Z]{2}|([a-zA-Z])\1{3}|[.,;:!?]{2,}(?<!\.\.\.)(?<!m\.[,:?])|&[a-z]+;| [.,;!?]| / |--"
)
_OFFENSIVE = re.compile(
    r"nigg|negro|faggot|\brap(e|ed|ist)\b|\bsex|porn|fuck|cunt|whore|\bslut|\bkike|\bspic\b|hitler", re.I
)
"""Offensive words, which are not needed for training."""


def clean(line: str) -> str | None:
    """Return the sentence with plain quotes, a capital and an end mark, or None if it cannot be read aloud."""
    text = unicodedata.normalize("NFC", line).translate(_SPELLINGS)
    text = re.sub(r"\s*(--+|—)\s*", " — ", text)
    text = re.sub(r"\b([ap]\.m|[Jj]r|etc)\.\.$", r"\1.", " ".join(text.split()).strip(" ,;:—-*"))
    text = _balance_quotes(text)
    if not text or not _readable(text):
        return None
    first = next(index for index, character in enumerate(text) if character.isalnum())
    text = text[:first] + text[first].upper() + text[first + 1 :]
    return text if _END.search(text) else text + "."


def is_acceptable(text: str) -> bool:
    """Return whether a text from the front end has letters, only known characters, and no more than 450 of them."""
    return (
        len(text) <= _MAX_LONG_CHARACTERS
        and any(character.isalpha() for character in text)
        and _ALLOWED_LONG.fullmatch(text) is not None
        and not _OFFENSIVE.search(text)
    )


def key(text: str) -> str:
    """Return a key that is equal for sentences with the same words."""
    return " ".join(words(text))


def words(text: str) -> list[str]:
    """Return the words in lower case."""
    return re.findall(r"[a-zà-ÿ0-9']+", text.lower())


class HeldOutSentences:
    """Sentences that must not occur in the training data, not even partly, unless they have only one or two words."""

    def __init__(self, sentences: Iterable[str]) -> None:
        self._runs: set[tuple[str, ...]] = set()
        self._keys: set[str] = set()
        for sentence in sentences:
            if len(words(sentence)) > _EVERYDAY_WORDS:
                self._keys.add(key(sentence))
            self._runs.update(_runs(sentence))

    def overlaps(self, text: str) -> bool:
        """Return whether ``text`` is one of the sentences, or shares five consecutive words with one."""
        return key(text) in self._keys or not self._runs.isdisjoint(_runs(text))


def _runs(text: str, length: int = 5) -> Iterable[tuple[str, ...]]:
    sequence = words(text)
    return (tuple(sequence[start : start + length]) for start in range(len(sequence) - length + 1))


def _balance_quotes(text: str) -> str:
    text = re.sub(r"(^|\s)'([^']+)'(?=$|[\s.,;!?])", r'\1"\2"', text)
    if text.count('"') % 2:
        text = text.replace('"', "")
    if text.count("(") != text.count(")"):
        text = text.replace("(", "").replace(")", "")
    return text


def _readable(text: str) -> bool:
    count = len(text.split())
    letters = sum(character.isalpha() for character in text)
    return (
        _ALLOWED.fullmatch(text) is not None
        and 1 <= count <= MAX_WORDS
        and len(text) <= _MAX_CHARACTERS
        and letters >= 2
        and letters >= 0.2 * len(text)
        and len(_FOREIGN.findall(text)) <= 2
        and len(_CAPITALS.findall(text)) <= 2
        and not _UNREADABLE.search(text)
        and not _OFFENSIVE.search(text)
    )
