"""How long an utterance should be, and what counts as one gone wrong."""

from __future__ import annotations

from math import ceil

from engine.protocol.request import SAMPLE_RATE, SAMPLES_PER_FRAME
from scripts.judge.figures import RECOGNISERS
from scripts.judge.recordings import Row

_CHARACTERS_A_SECOND = 17.5
"""The teacher's pace; its clips in ``data/`` take 0.81 to 1.20 of what is expected."""
_SILENCE_S = 0.3
_RUNAWAY = 2.0
_TRUNCATED = 0.5
_CUT_OFF = 3.0
"""Nobody waits longer: such an utterance has run away."""
_LATEST_ONSET_S = 0.3
RUNAWAY, TRUNCATED, LATE = "runaway", "truncated", "late"


def expected_s(text: str) -> float:
    """Seconds that a text takes."""
    return _SILENCE_S + len(text) / _CHARACTERS_A_SECOND


def most_frames(text: str) -> int:
    """After so many frames an utterance is stopped."""
    return ceil(_CUT_OFF * expected_s(text) * SAMPLE_RATE / SAMPLES_PER_FRAME)


def faults(row: Row, *, stopped: bool) -> list[str]:
    """What is wrong with a recording, of RUNAWAY, TRUNCATED and LATE.

    stopped: whether it ended by itself. It is truncated too when no recogniser heard its last three words.
    """
    seconds, expected = row["seconds"], expected_s(row["text"])
    lost = all(row[recogniser]["ending_lost"] for recogniser in RECOGNISERS)
    found = {
        RUNAWAY: not stopped or seconds > _RUNAWAY * expected,
        TRUNCATED: seconds < _TRUNCATED * expected or lost,
        LATE: row["onset_s"] > _LATEST_ONSET_S,
    }
    return [fault for fault, there in found.items() if there]
