"""Names of voices: display names, and the ids that files and requests use."""

from __future__ import annotations

import hashlib
import re
import unicodedata

from server.errors import ApiError, shown

MAX_DISPLAY_NAME = 100
PLUS = "+"
"""What the names of a blend have between them."""

_ID = re.compile("[a-z0-9_-]{1,64}")

_APOSTROPHES = re.compile("['\u2019]")
_SEPARATORS = re.compile("[^a-z0-9_]+")
_MAX_ID = 64
_HASH_DIGITS = 8


def is_voice_id(text: str) -> bool:
    """Return whether ``text`` is a valid id of a stored voice. A path never is."""
    return _ID.fullmatch(text) is not None


def folded(name: str) -> str:
    """Return ``name`` as names are compared: in lower case, composed (NFC), without spaces around it."""
    return unicodedata.normalize("NFC", name.strip()).lower()


def voice_id(name: str) -> str:
    """Return the id of the voice with that name, which is also the name of its file.

    A name of ``a-z``, ``0-9``, ``_`` and ``-`` is its own id, in any case of letters. Otherwise the id consists of the
    name's letters without accents, and of a hash of the name if that would lose letters. Idempotent.
    """
    name = folded(name)
    if is_voice_id(name):
        return name
    decomposed = unicodedata.normalize("NFKD", _APOSTROPHES.sub("", name))
    plain = "".join(character for character in decomposed if not unicodedata.combining(character))
    text = _SEPARATORS.sub("-", plain).strip("-")
    lost = any(character.isalnum() and not character.isascii() for character in plain)
    if not lost and text and len(text) <= _MAX_ID:
        return text
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    return f"{(text or 'voice')[: _MAX_ID - _HASH_DIGITS - 1]}-{digest}"


def check_display_name(name: str | None) -> str:
    """Return ``name`` if a voice may have it. Raises ApiError."""
    if name is None:
        raise ApiError("name is required", param="name", code="missing_required_parameter")
    if len(name) > MAX_DISPLAY_NAME:
        message = f"name must have at most {MAX_DISPLAY_NAME} characters, got {len(name)}"
        raise ApiError(message, param="name", code="string_above_max_length")
    if PLUS in name:
        message = f"name must not contain '+', which blends voices (ava+emma), got '{shown(name)}'"
        raise ApiError(message, param="name")
    if not name.strip() or any(unicodedata.category(character)[0] == "C" for character in name):
        raise ApiError("name must have a visible character and no control characters", param="name")
    return name.strip()
