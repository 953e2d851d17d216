"""What a client is told of a recording that is not taken."""

from __future__ import annotations

from server.api_error import ApiError

_PARAM = "ref_audio"


def refusal(reason: str, code: str = "invalid_value") -> ApiError:
    """The error for a recording that cannot be used."""
    return ApiError(f"Invalid '{_PARAM}': {reason}.", param=_PARAM, code=code)


def unsupported(reason: str) -> ApiError:
    """The error for a kind of source that this server does not take."""
    return ApiError(f"Not supported '{_PARAM}': {reason}.", param=_PARAM, code="not_supported")


def too_large(most: int) -> ApiError:
    """The error for a file of more than ``most`` bytes."""
    return refusal(f"more than {most} bytes")
