"""Validation of reference recordings, and its errors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from server.api_error import ApiError

_PARAM = "ref_audio"


def invalid_recording(reason: str, code: str = "invalid_value") -> ApiError:
    """Return the error for an unusable recording."""
    return ApiError(f"Invalid '{_PARAM}': {reason}.", param=_PARAM, code=code)


def unsupported_source(reason: str) -> ApiError:
    """Return the error for a kind of source that this server does not accept."""
    return ApiError(f"Unsupported '{_PARAM}': {reason}.", param=_PARAM, code="not_supported")


def recording_too_large(max_bytes: int) -> ApiError:
    """Return the error for a file of more than ``max_bytes`` bytes."""
    return invalid_recording(f"the file has more than {max_bytes} bytes (limits.reference_max_bytes)")


_RATES = range(8_000, 192_001)
_MAX_CHANNELS = 8
_MIN_PEAK = 1e-3
"""-60 dBFS: a recording with a lower peak counts as silent."""
_MAX_PEAK = 8.0
"""Float samples above this are not audio in [-1, 1]."""


class RecordingLimits(Protocol):
    """The part of ``server.limits.Limits`` that a decoder needs."""

    reference_min_seconds: float
    reference_max_seconds: float
    reference_max_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """A recording: float32 mono samples and their rate in Hz."""

    samples: NDArray[np.float32]
    rate: int


def check_header(rate: int, channels: int, limits: RecordingLimits, seconds: float = 0.0) -> None:
    """Check the values in a file's header before decoding. Raises ApiError when one is out of range."""
    if rate not in _RATES:
        raise invalid_recording(f"the sample rate must be between {_RATES[0]} and {_RATES[-1]} Hz, got {rate} Hz")
    if not 1 <= channels <= _MAX_CHANNELS:
        raise invalid_recording(f"the recording must have 1 to {_MAX_CHANNELS} channels, got {channels}")
    if seconds > limits.reference_max_seconds:
        raise _too_long(limits)


def join_blocks(blocks: Iterable[NDArray[np.float32]], rate: int, limits: RecordingLimits) -> Recording:
    """Join ``blocks`` of mono samples into a recording. Stops reading when the recording is too long.

    Raises ApiError when it is too long, too short, not finite, or silent.
    """
    max_samples = int(limits.reference_max_seconds * rate)
    kept: list[NDArray[np.float32]] = []
    count = 0
    with np.errstate(all="ignore"):
        for block in blocks:
            count += len(block)
            if count > max_samples:
                raise _too_long(limits)
            kept.append(block)
    samples = np.concatenate(kept) if kept else np.zeros(0, np.float32)
    _check_samples(samples, rate, limits)
    return Recording(samples, rate)


def _check_samples(samples: NDArray[np.float32], rate: int, limits: RecordingLimits) -> None:
    if len(samples) < limits.reference_min_seconds * rate or not len(samples):
        seconds = len(samples) / rate
        reason = (
            f"must have at least {limits.reference_min_seconds:g} s (limits.reference_min_seconds), got {seconds:.2f} s"
        )
        raise invalid_recording(f"the recording {reason}", "reference_too_short")
    peak = float(np.abs(samples).max())
    if not peak <= _MAX_PEAK:
        raise invalid_recording(f"the samples must be finite and at most {_MAX_PEAK:g} times full scale")
    if peak < _MIN_PEAK:
        raise invalid_recording("the recording is silent: no sample is above -60 dBFS", "reference_silent")


def _too_long(limits: RecordingLimits) -> ApiError:
    reason = f"the recording must have at most {limits.reference_max_seconds:g} s (limits.reference_max_seconds)"
    return invalid_recording(reason, "reference_too_long")
