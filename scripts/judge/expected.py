"""Expected durations of utterances, and criteria for faulty ones."""

from __future__ import annotations

from math import ceil

from engine.protocol.request import SAMPLE_RATE, SAMPLES_PER_FRAME
from scripts.judge.figures import RECOGNIZERS
from scripts.judge.recordings import Row

_CHARACTERS_PER_SECOND = 17.5
"""The teacher's rate. Its clips in ``data/`` take 0.81 to 1.20 times the expected duration."""
_SILENCE_S = 0.3
_RUNAWAY = 2.0
_TRUNCATED = 0.5
_STOP_AFTER = 3.0
"""Multiple of the expected duration after which an utterance is stopped as runaway."""
_MAX_ONSET_S = 0.3
RUNAWAY, TRUNCATED, LATE = "runaway", "truncated", "late"


def expected_s(text: str) -> float:
    """Return the expected duration of a text in seconds."""
    return _SILENCE_S + len(text) / _CHARACTERS_PER_SECOND


def max_frames(text: str) -> int:
    """Return the number of frames after which an utterance is stopped."""
    return ceil(_STOP_AFTER * expected_s(text) * SAMPLE_RATE / SAMPLES_PER_FRAME)


def faults(row: Row, *, stopped: bool) -> list[str]:
    """Return the faults of a recording: RUNAWAY, TRUNCATED and LATE.

    stopped: whether it ended by itself. It is also truncated when none of the recognizers found its last three words.
    """
    seconds, expected = row["seconds"], expected_s(row["text"])
    endings = [row[recognizer]["ending_lost"] for recognizer in RECOGNIZERS if recognizer in row]
    present = {
        RUNAWAY: not stopped or seconds > _RUNAWAY * expected,
        TRUNCATED: seconds < _TRUNCATED * expected or (bool(endings) and all(endings)),
        LATE: row["onset_s"] > _MAX_ONSET_S,
    }
    return [fault for fault, is_present in present.items() if is_present]
