"""Finds text in a script that a checkpoint cannot read."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection

from server.text.patterns import lazy

_LATIN = "Latin"
_SCRIPTS: dict[str, tuple[tuple[int, int], ...]] = {
    "Hiragana": ((0x3041, 0x309F),),
    "Katakana": ((0x30A0, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9F)),
    "Hangul": ((0x1100, 0x11FF), (0x3130, 0x318F), (0xA960, 0xA97F), (0xAC00, 0xD7FF)),
    "Han": (
        (0x2E80, 0x2FDF),
        (0x3005, 0x3007),
        (0x3400, 0x4DBF),
        (0x4E00, 0x9FFF),
        (0xF900, 0xFAFF),
        (0x20000, 0x323AF),
    ),
    "Bopomofo": ((0x3105, 0x312F), (0x31A0, 0x31BF)),
    "Cyrillic": ((0x0400, 0x052F), (0x1C80, 0x1C8F), (0x2DE0, 0x2DFF), (0xA640, 0xA69F)),
    "Greek": ((0x0370, 0x03FF), (0x1F00, 0x1FFF)),
    "Arabic": ((0x0600, 0x06FF), (0x0750, 0x077F), (0x08A0, 0x08FF), (0xFB50, 0xFDFF), (0xFE70, 0xFEFC)),
    "Hebrew": ((0x0590, 0x05FF), (0xFB1D, 0xFB4F)),
    "Devanagari": ((0x0900, 0x097F), (0xA8E0, 0xA8FF)),
    "Bengali": ((0x0980, 0x09FF),),
    "Gurmukhi": ((0x0A00, 0x0A7F),),
    "Gujarati": ((0x0A80, 0x0AFF),),
    "Oriya": ((0x0B00, 0x0B7F),),
    "Tamil": ((0x0B80, 0x0BFF),),
    "Telugu": ((0x0C00, 0x0C7F),),
    "Kannada": ((0x0C80, 0x0CFF),),
    "Malayalam": ((0x0D00, 0x0D7F),),
    "Sinhala": ((0x0D80, 0x0DFF),),
    "Thai": ((0x0E00, 0x0E7F),),
    "Lao": ((0x0E80, 0x0EFF),),
    "Tibetan": ((0x0F00, 0x0FFF),),
    "Myanmar": ((0x1000, 0x109F),),
    "Georgian": ((0x10A0, 0x10FF), (0x1C90, 0x1CBF), (0x2D00, 0x2D2F)),
    "Armenian": ((0x0530, 0x058F),),
    "Ethiopic": ((0x1200, 0x139F), (0x2D80, 0x2DDF)),
    "Cherokee": ((0x13A0, 0x13FF), (0xAB70, 0xABBF)),
    "Khmer": ((0x1780, 0x17FF),),
    "Mongolian": ((0x1800, 0x18AF),),
    "Syriac": ((0x0700, 0x074F),),
    "Thaana": ((0x0780, 0x07BF),),
}
_READ_BY: dict[str, tuple[str, ...]] = {
    "chinese": ("Han", "Bopomofo"),
    "japanese": ("Han", "Hiragana", "Katakana"),
    "korean": ("Hangul", "Han"),
    "russian": ("Cyrillic",),
}
"""Language -> its scripts other than Latin."""
_NOT_LATIN = lazy("[^\x00-\u02af\u1e00-\u1eff\u2000-\u2bff\ufb00-\ufb06\ue000-\uf8ff]")
"""Everything outside the blocks of Latin letters, punctuation and symbols."""


def unreadable_script(text: str, languages: Collection[str]) -> str | None:
    """Return the name of the script of ``unreadable_letter``, or None."""
    letter = unreadable_letter(text, languages)
    return None if letter is None else script_of(letter)


def unreadable_letter(text: str, languages: Collection[str]) -> str | None:
    """Return the first letter in ``text`` of a script that no language of the checkpoint is written in, or None.

    languages: names as the checkpoint spells them, for example "english" or "Chinese". A single Greek letter, as in
    "5 Ω" or "π", is a symbol and not a script.
    """
    readable = {_LATIN}
    for language in languages:
        readable.update(_READ_BY.get(language.lower(), ()))
    greek = 0
    for match in _NOT_LATIN.finditer(text):
        character = match[0]
        if unicodedata.category(character)[0] != "L":
            greek = 0
            continue
        script = script_of(character)
        if script == "Greek":
            greek = greek + 1 if match.start() and script_of(text[match.start() - 1]) == "Greek" else 1
            if greek < 2:
                continue
        if script is not None and script not in readable:
            return character
    return None


def script_of(character: str) -> str | None:
    """Return the script of a letter. Styled letters, such as mathematical ones, are Latin. None for an unknown one."""
    code = ord(character)
    for script, ranges in _SCRIPTS.items():
        if any(first <= code <= last for first, last in ranges):
            return script
    name = unicodedata.name(character, "")
    if name.startswith(("LATIN", "MATHEMATICAL", "FULLWIDTH LATIN", "MODIFIER LETTER", "CIRCLED", "SQUARED")):
        return _LATIN
    return name.split(" ")[0].capitalize() or None
