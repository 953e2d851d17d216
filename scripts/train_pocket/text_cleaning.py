"""What makes a line of text a sentence worth speaking."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

MOST_WORDS = 40
_MOST_CHARACTERS = 200
_SPELLINGS = str.maketrans(
    {"‘": "'", "’": "'", "`": "'", "´": "'", "“": '"', "”": '"', "„": '"', "–": "—", "…": "...", "\u00a0": " ", "_": ""}
)
_ALLOWED = re.compile(r"[A-Za-zÀ-ÖØ-öø-ÿ0-9 .,;:!?'\"()—$£€%&/+-]+")
_FOREIGN = re.compile(r"[À-ÖØ-öø-ÿ]")
_END = re.compile(r"[.!?][\"')]*$")
_CAPITALS = re.compile(r"\b[A-Z]{2,}\b")
_UNREADABLE = re.compile(
    r"https?:|www\.|\.com|[a-z][A-Z]{2}|([a-zA-Z])\1{3}|[.,;:!?]{2,}(?<!\.\.\.)(?<!m\.[,:?])|&[a-z]+;| [.,;!?]| / |--"
)
_UNWELCOME = re.compile(
    r"nigg|negro|faggot|\brap(e|ed|ist)\b|\bsex|porn|fuck|cunt|whore|\bslut|\bkike|\bspic\b|hitler", re.I
)
"""Slurs and the like: the checkpoint need not practise them."""


def clean(line: str) -> str | None:
    """The sentence in ``line`` with plain quotes, a capital and an end mark; None where it cannot be read aloud."""
    text = unicodedata.normalize("NFC", line).translate(_SPELLINGS)
    text = re.sub(r"\s*(--+|—)\s*", " — ", text)
    text = re.sub(r"\b([ap]\.m|[Jj]r|etc)\.\.$", r"\1.", " ".join(text.split()).strip(" ,;:—-*"))
    text = _quotes_balanced(text)
    if not text or not _readable(text):
        return None
    first = next(index for index, character in enumerate(text) if character.isalnum())
    text = text[:first] + text[first].upper() + text[first + 1 :]
    return text if _END.search(text) else text + "."


def key(text: str) -> str:
    """Equal for sentences that sound alike."""
    return " ".join(words(text))


def words(text: str) -> list[str]:
    """Lower-case words."""
    return re.findall(r"[a-zà-ÿ0-9']+", text.lower())


class KeptApart:
    """Sentences that training must not hear, in part or whole."""

    def __init__(self, sentences: Iterable[str]) -> None:
        self._runs: set[tuple[str, ...]] = set()
        self._keys: set[str] = set()
        for sentence in sentences:
            self._keys.add(key(sentence))
            self._runs.update(_runs(sentence))

    def touches(self, text: str) -> bool:
        """Whether ``text`` is one of the sentences or shares five words in a row with one."""
        return key(text) in self._keys or not self._runs.isdisjoint(_runs(text))


def _runs(text: str, length: int = 5) -> Iterable[tuple[str, ...]]:
    found = words(text)
    return (tuple(found[start : start + length]) for start in range(len(found) - length + 1))


def _quotes_balanced(text: str) -> str:
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
        and 1 <= count <= MOST_WORDS
        and len(text) <= _MOST_CHARACTERS
        and letters >= 2
        and letters >= 0.2 * len(text)
        and len(_FOREIGN.findall(text)) <= 2
        and len(_CAPITALS.findall(text)) <= 2
        and not _UNREADABLE.search(text)
        and not _UNWELCOME.search(text)
    )
