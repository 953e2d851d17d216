"""The interface of a storage of voices: a folder, or a bucket of an object store."""

from __future__ import annotations

from typing import Protocol

from server.errors import ApiError
from server.voices.stored_voice import StoredVoice, VoiceHeader


class VoiceStorage(Protocol):
    """The stored voices that one owner sees: its own and the shared ones; its own take precedence. Methods block."""

    def names(self) -> list[str]:
        """Return the sorted names of all voices that the owner sees. Raises ApiError."""

    def headers(self) -> list[VoiceHeader]:
        """Return the headers of all voices that the owner sees, oldest first. Skips invalid ones. Raises ApiError."""

    def get(self, name: str) -> StoredVoice | None:
        """Return the voice with that id or display name, or None. Raises ApiError when it cannot be read."""

    def add(self, voice: StoredVoice) -> None:
        """Store a voice durably, and never replace one. Raises ApiError when the name is taken or a limit reached."""

    def check_room(self, name: str, *, shared: bool = True) -> None:
        """Check that a voice of that name can be stored. Raises ApiError."""

    def remove(self, name: str) -> bool:
        """Delete the voice with that id, the owner's own first. Return whether it existed. Raises ApiError."""


def name_taken(name: str) -> ApiError:
    """Return the error for a voice name that already exists."""
    message = f"voice '{name}' exists already; choose another name, or delete the voice first"
    return ApiError(message, status=409, param="name", code="voice_exists")


def not_owner(name: str) -> ApiError:
    """Return the error for deleting a shared voice of another key."""
    message = (
        f"voice '{name}' is shared and was not stored with this API key; only the key that stored it can delete it"
    )
    return ApiError(message, status=403, param="voice_id", code="voice_not_owned")


def storage_full(max_voices: int) -> ApiError:
    """Return the error for a full storage."""
    message = f"at most {max_voices} voices can be stored (voices.max_voices); delete one first"
    return ApiError(message, status=409, code="voice_limit_reached")


def share_full(max_of_owner: int, max_voices: int, stored: int) -> ApiError:
    """Return the error for an owner that has stored its share of the voices."""
    message = (
        f"one API key can store at most {max_of_owner} of the {max_voices} voices (limits.client_share), and this key "
        f"has stored {stored}; delete one first"
    )
    return ApiError(message, status=409, code="voice_limit_reached")


def unreadable(name: str, reason: object) -> ApiError:
    """Return the error for a stored voice that is not valid."""
    message = f"the file of stored voice '{name}' cannot be used: {reason}; delete the voice and store it again"
    return ApiError(message, status=500, param="voice", code="voice_unreadable")
