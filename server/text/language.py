"""Which language the front end reads a text in."""

from __future__ import annotations

from collections.abc import Collection

from server.text.patterns import lazy

CODES = {
    "chinese": "zh",
    "english": "en",
    "french": "fr",
    "german": "de",
    "italian": "it",
    "japanese": "ja",
    "korean": "ko",
    "portuguese": "pt",
    "russian": "ru",
    "spanish": "es",
}
"""The codes (ISO 639-1) of languages that checkpoints of Qwen3-TTS name in English, in lower case."""

_WORD = lazy(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_ENGLISH = frozenset(
    "the and of to you your this that these those with for are is was were have has had will would can could should "
    "it its it's my our their they we what when where which who how why not don't isn't i'm at by from please there "
    "be been do does did if then than about into just only some any more after before call".split()
)
_OTHERS = frozenset(
    "der das und ist nicht ich sie ein eine mit für auf den dem zu im von wir es wie uhr "
    "le la les des et est une un dans pour pas je vous nous que qui sur avec au aux du ce "
    "el los las y es una en para por con se del lo su más cómo está al "
    "il lo gli di che è con non una sono del della nel alla anche come "
    "os um uma não da dos das em para com que por mais como está ao".split()
)
"""Function words of German, French, Spanish, Italian and Portuguese, as far as they are not more common in English."""
_SAMPLE = 4000
"""Characters that are looked at."""


def text_language(asked: str, text: str, readable: Collection[str]) -> str:
    """Return the lower-case name of the language to read ``text`` in, or "" if it is unknown.

    asked: the language of the request; "auto" or empty selects the only language of the checkpoint, or English for a
    text that contains more English function words than others. Wrong rules are worse than none, so a doubt is unknown.
    readable: lower-case names of the languages that the checkpoint can read.
    """
    name = asked.strip().lower()
    if name not in ("", "auto"):
        return name
    if len(readable) == 1:
        return next(iter(readable))
    return "english" if "english" in readable and _is_english(text) else ""


def _is_english(text: str) -> bool:
    words = [word.lower().replace("’", "'") for word in _WORD.findall(text[:_SAMPLE])]
    english = sum(word in _ENGLISH for word in words)
    return english > 2 * sum(word in _OTHERS for word in words)
