"""Unicode clean-up: composed characters, plain quotes, dashes and spaces; no invisible characters or stacked marks."""

from __future__ import annotations

import re
import unicodedata

from server.text.patterns import lazy

_PLAIN = {
    "‘": "'", "’": "'", "‚": "'", "‛": "'", "ʼ": "'", "ʹ": "'", "`": "`", "´": "'", "＇": "'",
    "“": '"', "”": '"', "„": '"', "‟": '"', "«": '"', "»": '"', "〝": '"', "〞": '"', "＂": '"',
    "‹": "'", "›": "'",
    "‐": "-", "‑": "-", "﹣": "-", "⁃": "-", "‒": "–", "―": "—", "⸺": "—", "⸻": "—",
    "…": "...", "⋯": "...", "‥": "..",
    "İ": "I",
    "ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st",
    "⁄": "⁄", "∕": "/", "∶": ":", "꞉": ":", "﹪": "%", "﹟": "#", "﹠": "&", "﹫": "@",
    "\r": "\n", "\v": "\n", "\f": "\n", "\x85": "\n", "\u2028": "\n", "\u2029": "\n\n",
    "￥": "¥", "￦": "₩", "￡": "£", "￠": "¢",
    "\u1680": " ", "\u00a0": " ", "\u202f": " ", "\u205f": " ", "\u3000": " ",
    **{chr(code): " " for code in range(0x2000, 0x200B)},
}  # fmt: skip
_TABLE = str.maketrans(_PLAIN)
_INVISIBLE = lazy(
    r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f"
    r"\u202a-\u202e\u2060-\u2064\u2066-\u206f\u3164\ufeff\uffa0\ufff9-\ufffd\U000e0001\U000e0020-\U000e007f]"
)
"""Control characters, marks of direction, zero-width spaces, soft hyphens, tags. Joiners of emoji and scripts stay."""
_STACKED = lazy(r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20e2\u20e4-\u20ff\ufe20-\ufe2f]{3,}")
"""Three or more combining marks on one letter, which are decoration."""
_LEFT_MARKS = lazy(
    r"(?<=[A-Za-z0-9\s])(?!(?<![^\W_][A-Za-z])(?<=[A-Za-z])[\u0302-\u0304](?![^\W_]|[\u0300-\u036f]))[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20e2\u20e4-\u20ff]+"
)
"""Combining marks that are left after composition: on a Latin letter, a digit or a space. x̄ keeps its own."""
_STYLED = lazy(
    "[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff\u24b6-\u24e9\u2100-\u2115\u2119-\u2121\u2124-\u2138"
    "\u2160-\u217f\u3371-\u33df]+"
)
"""Full-width, mathematical and circled letters and digits, which people use for style; Roman numerals and units that
are one character each."""
_TYPED_FRACTION = lazy(r"(?<=[0-9])⁄(?=[0-9])")
_JOINED = lazy(r"(?<=[A-Za-z])[\u200c\u200d]+(?=[A-Za-z])")
"""Joiners that other scripts need, between Latin letters."""
_WIDE_PUNCTUATION = lazy("[\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff5e]")
_WIDE_SCRIPT = lazy("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_OTHER_DIGITS = lazy(r"[^\x00-\x7f\D]")
_NUMBER_SIGNS = lazy(
    "[\u1369-\u1371\u19da\u2474-\u247c\u2488-\u2490\u24f5-\u24ff\U00010a40-\U00010a43\U00010e60-\U00010e68"
    "\U00011052-\U0001105a\U0001f100-\U0001f10a]"
)
"""Numbers in circles, in brackets or with a full stop, and digits of scripts without decimal numbers."""
_APOSTROPHES = str.maketrans({each: plain for each, plain in _PLAIN.items() if plain == "'"})
_FULL_WIDTH = lazy("[\uff01-\uff5e]+")
_KEPT_STYLED = "℀℁℃℅℆℉№℗℞℠™Ω℮"


def clean(text: str) -> str:
    """Return ``text`` in composed form with plain quotes, hyphens and spaces and without invisible characters."""
    text = text.replace("\r\n", "\n")
    if text.isascii():
        return _INVISIBLE.sub("", text.translate(_TABLE))
    text = _STACKED.sub("", text)
    text = unicodedata.normalize("NFC", text)
    text = _JOINED.sub("", _INVISIBLE.sub("", text.translate(_TABLE)))
    text = _LEFT_MARKS.sub("", text)
    text = _STYLED.sub(_unstyled, text)
    text = _TYPED_FRACTION.sub("/", text)
    text = _OTHER_DIGITS.sub(lambda match: str(unicodedata.decimal(match[0])), text)
    text = _NUMBER_SIGNS.sub(lambda match: f" {unicodedata.numeric(match[0]):.0f} ", text)
    if not _WIDE_SCRIPT.search(text):
        text = _WIDE_PUNCTUATION.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    return text


def _unstyled(match: re.Match[str]) -> str:
    return "".join(
        character if character in _KEPT_STYLED else unicodedata.normalize("NFKC", character) for character in match[0]
    )


def plain_letters(word: str) -> str:
    """Return ``word`` as ``clean`` writes it: composed, with plain apostrophes and characters of usual width."""
    composed = unicodedata.normalize("NFC", word).translate(_APOSTROPHES)
    return _FULL_WIDTH.sub(lambda match: unicodedata.normalize("NFKC", match[0]), composed)
