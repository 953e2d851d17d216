"""All that was measured, for a file: the table's figures and every utterance with what was heard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from scripts.judge.expected import faults
from scripts.judge.parts import Parts, Scored
from scripts.judge.table import Figure


def figure_details(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """Each figure's fields and its verdict."""
    return [asdict(each) | {"verdict": each.verdict} for each in figures]


def utterance_details(parts: Parts) -> list[dict[str, Any]]:
    """Each utterance with its scores and faults, and each clip before and after the codec."""
    groups = {
        "main": parts.main,
        "further": parts.further,
        "x-vector": parts.by_vector,
        "in context": parts.in_context,
    }
    spoken = [_utterance(name, each) for name, group in groups.items() for each in group]
    clips = {"original": parts.original, "codec": parts.decoded}
    return [*spoken, *({"group": name} | row for name, rows in clips.items() for row in rows)]


def _utterance(group: str, scored: Scored) -> dict[str, Any]:
    utterance = scored.spoken.utterance
    speaker = utterance.reference.speaker if utterance.reference else utterance.speaker
    found = faults(scored.row, stopped=scored.spoken.stopped)
    return {"group": group, "speaker": speaker, "seed": utterance.seed, "faults": found} | scored.row
