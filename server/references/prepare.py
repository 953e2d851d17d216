"""Prepares a recording and its transcript for cloning: checks, trims and cuts them to what a checkpoint can use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.protocol.request import SAMPLE_RATE
from server.references.config import MismatchedTranscript
from server.references.cut import cut
from server.references.cut_at_pause import cut_at_pause
from server.references.speech_spans import Span, speech_spans
from server.references.transcript import Transcript, length_mismatch
from server.references.validation import invalid_recording

_SILENCE_BEFORE = SAMPLE_RATE // 10
_SILENCE_AFTER = SAMPLE_RATE * 3 // 10
"""Silence kept around the speech. The voice continues the recording, so it would also continue a longer silence."""


@dataclass(frozen=True, slots=True)
class ReferenceChanges:
    """What was done to a recording and its transcript, for the outcome of the request.

    trimmed: seconds of silence removed at both ends. cut: duration in seconds of a recording that was cut, before and
    after. stop_added: whether the transcript lacked its final stop. x_vector: why the recording is not used in context
    although it has a transcript.
    """

    trimmed: float = 0.0
    cut: tuple[float, float] | None = None
    stop_added: bool = False
    x_vector: Literal["transcript_mismatch", "reference_too_long"] | None = None

    def __str__(self) -> str:
        changes = []
        if self.x_vector is not None:
            changes.append(f"x-vector only ({self.x_vector})")
        if self.cut is not None:
            changes.append(f"cut from {self.cut[0]:.1f} to {self.cut[1]:.1f} s")
        if self.trimmed:
            changes.append(f"trimmed {self.trimmed:.2f} s")
        if self.stop_added:
            changes.append("stop added")
        return ", ".join(changes)


class Prepared(NamedTuple):
    """The samples to encode. transcript: what is said in them; None if only their x-vector is used."""

    samples: NDArray[np.float32]
    transcript: str | None
    changes: ReferenceChanges


def prepare(
    samples: NDArray[np.float32],
    transcript: Transcript | None,
    seconds_range: tuple[float, float],
    mismatched: MismatchedTranscript = "error",
) -> Prepared:
    """Check a recording and trim its silence; with a transcript, also cut it if it is too long for in-context cloning.

    Blocks for some milliseconds, and for tenths of a second where ``cut_at_pause`` looks for words.

    Args:
        samples: mono samples at 24 kHz.
        transcript: what is said in the recording; None to use its x-vector only.
        seconds_range: shortest and longest recording that the checkpoint was trained for.
        mismatched: what to do if the transcript cannot be that of the recording.

    Raises:
        ApiError: 400 if there is too little speech, or the transcript is not plausible.
    """
    shortest, longest = seconds_range
    spans = speech_spans(samples)
    seconds = _seconds(spans)
    if seconds < shortest:
        reason = f"must have at least {shortest:g} s of speech for this model, got {seconds:.2f} s; record more speech"
        raise invalid_recording(f"the recording {reason}", "reference_too_short")
    trimmed = _trimmed(samples, spans)
    silence = (len(samples) - len(trimmed)) / SAMPLE_RATE
    if transcript is None:
        return Prepared(trimmed, None, ReferenceChanges(silence))
    mismatch = length_mismatch(transcript.text, sum(span.samples for span in spans) / SAMPLE_RATE, seconds)
    if mismatch is not None and mismatched == "error":
        raise mismatch
    if mismatch is not None and mismatched == "x_vector":
        return Prepared(trimmed, None, ReferenceChanges(silence, x_vector="transcript_mismatch"))
    if seconds <= longest:
        return Prepared(trimmed, transcript.text, ReferenceChanges(silence, stop_added=transcript.stop_added))
    most = round(longest * SAMPLE_RATE)
    kept = cut(spans, transcript.text, most) or cut_at_pause(samples, spans[0].start, transcript.text, most)
    if kept is None or _seconds(kept.spans) < shortest:
        return Prepared(trimmed, None, ReferenceChanges(silence, x_vector="reference_too_long"))
    beginning = _trimmed(samples[: kept.end], kept.spans)
    durations = len(samples) / SAMPLE_RATE, len(beginning) / SAMPLE_RATE
    return Prepared(beginning, kept.transcript, ReferenceChanges(cut=durations))


def _seconds(spans: list[Span]) -> float:
    return (spans[-1].stop - spans[0].start) / SAMPLE_RATE


def _trimmed(samples: NDArray[np.float32], spans: list[Span]) -> NDArray[np.float32]:
    return samples[max(0, spans[0].start - _SILENCE_BEFORE) : spans[-1].stop + _SILENCE_AFTER]
