"""Finds words that are made of a frequent word and are read like it, so that their spelling shows how they are read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

_ENDINGS = (
    "s es ed d ing er r ers rs or ors est st ly ness able ment less ful ish ity y ship ism ist ists like some"
).split()
_BEGINNINGS = "un re over out non under pre inter super mis dis fore anti counter semi sub".split()
_MIN_STEM = 3
"""Minimum letters of a word of which others are made."""
_MIN_CHANGEABLE = 4
"""Minimum sounds of a word whose last sound an ending may change."""
_STRESS = str.maketrans("", "", "12")


def is_derived(word: str, phonemes: str, frequent: Collection[str], pronunciations: Mapping[str, str]) -> bool:
    """Return whether ``word`` is a frequent word with an ending or a beginning, or two frequent words, and read so.

    frequent: the words that count as such. pronunciations: word -> phonemes in the notation of ``word_phonemes``.
    Stress is ignored, and so is a stem's last sound, which an ending may change ("cite", "citable").
    """
    spoken = phonemes.translate(_STRESS)

    def sounds(stem: str) -> str | None:
        known = pronunciations.get(stem) if len(stem) >= _MIN_STEM and stem in frequent else None
        return None if known is None else known.translate(_STRESS)

    for stem in stems(word):
        known = sounds(stem)
        if known is not None and spoken.startswith(known[:-1] if len(known) >= _MIN_CHANGEABLE else known):
            return True
    for beginning in _BEGINNINGS:
        known = sounds(word.removeprefix(beginning)) if word.startswith(beginning) else None
        if known is not None and spoken.endswith(known):
            return True
    halves = ((sounds(word[:at]), sounds(word[at:])) for at in range(_MIN_STEM, len(word) - _MIN_STEM + 1))
    return any(first is not None and second is not None and spoken == first + second for first, second in halves)


def stems(word: str) -> Iterator[str]:
    """Yield the words that ``word`` may be made of: "planes", "planed" -> "plane"; "planned" -> "plan"."""
    for ending in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem == word:
            continue
        yield stem
        yield stem + "e"
        if stem[-2:-1] == stem[-1:]:
            yield stem[:-1]
        if stem.endswith("i"):
            yield stem[:-1] + "y"
