"""Validation of reference recordings, and its errors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from server.api_error import ApiError

_PARAM = "ref_audio"


def refusal(reason: str, code: str = "invalid_value") -> ApiError:
    """Return the error for an unusable recording."""
    return ApiError(f"Invalid '{_PARAM}': {reason}.", param=_PARAM, code=code)


def unsupported(reason: str) -> ApiError:
    """Return the error for a kind of source that this server does not accept."""
    return ApiError(f"Not supported '{_PARAM}': {reason}.", param=_PARAM, code="not_supported")


def too_large(most: int) -> ApiError:
    """Return the error for a file of more than ``most`` bytes."""
    return refusal(f"more than {most} bytes")


_RATES = range(8_000, 192_001)
_MOST_CHANNELS = 8
_QUIETEST_PEAK = 1e-3
"""-60 dBFS: a recording with a lower peak counts as silent."""
_LOUDEST_PEAK = 8.0
"""Float samples above this are not audio in [-1, 1]."""


class RecordingLimits(Protocol):
    """The part of ``server.settings.Limits`` that a decoder needs: duration in seconds, file size in bytes."""

    reference_min_seconds: float
    reference_max_seconds: float
    reference_max_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """A recording: float32 mono samples and their rate in Hz."""

    samples: NDArray[np.float32]
    rate: int


def check_claims(rate: int, channels: int, limits: RecordingLimits, seconds: float = 0.0) -> None:
    """Check the values in a file's header before decoding. Raises ApiError when one is out of range."""
    if rate not in _RATES:
        raise refusal(f"{rate} Hz; 8000 to 192000 are accepted")
    if not 1 <= channels <= _MOST_CHANNELS:
        raise refusal(f"{channels} channels; at most {_MOST_CHANNELS} are accepted")
    if seconds > limits.reference_max_seconds:
        raise _too_long(limits)


def joined(blocks: Iterable[NDArray[np.float32]], rate: int, limits: RecordingLimits) -> Reference:
    """Join ``blocks`` of mono samples to a recording. Stops reading when the recording is too long.

    Raises ApiError when it is too long, too short, not finite, or silent.
    """
    most = int(limits.reference_max_seconds * rate)
    kept: list[NDArray[np.float32]] = []
    count = 0
    with np.errstate(all="ignore"):
        for block in blocks:
            count += len(block)
            if count > most:
                raise _too_long(limits)
            kept.append(block)
    samples = np.concatenate(kept) if kept else np.zeros(0, np.float32)
    _check_samples(samples, rate, limits)
    return Reference(samples, rate)


def _check_samples(samples: NDArray[np.float32], rate: int, limits: RecordingLimits) -> None:
    if len(samples) < limits.reference_min_seconds * rate or not len(samples):
        raise refusal(f"shorter than {limits.reference_min_seconds:g} s", "reference_too_short")
    peak = float(np.abs(samples).max())
    if not peak <= _LOUDEST_PEAK:
        raise refusal("its samples are not finite numbers within full scale")
    if peak < _QUIETEST_PEAK:
        raise refusal("the recording is silent", "reference_silent")


def _too_long(limits: RecordingLimits) -> ApiError:
    return refusal(f"longer than {limits.reference_max_seconds:g} s", "reference_too_long")
