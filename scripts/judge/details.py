"""Details for the JSON report: the figures of the table, and every utterance with the recognized words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from scripts.judge.expected import faults
from scripts.judge.parts import ExamResults, ScoredUtterance
from scripts.judge.table import Figure


def figure_details(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """Return the fields and the verdict of each figure."""
    return [asdict(each) | {"verdict": each.verdict} for each in figures]


def utterance_details(results: ExamResults) -> list[dict[str, Any]]:
    """Return each utterance with its scores and faults, and each clip before and after the codec."""
    groups = {
        "main": results.main,
        "further": results.further,
        "x-vector": results.by_vector,
        "in context": results.in_context,
    }
    utterances = [_utterance(name, each) for name, group in groups.items() for each in group]
    clips = {"original": results.original, "codec": results.decoded}
    return [*utterances, *({"group": name} | row for name, rows in clips.items() for row in rows)]


def _utterance(group: str, scored: ScoredUtterance) -> dict[str, Any]:
    utterance = scored.spoken.utterance
    speaker = utterance.reference.speaker if utterance.reference else utterance.speaker
    utterance_faults = faults(scored.row, stopped=scored.spoken.stopped)
    return {"group": group, "speaker": speaker, "seed": utterance.seed, "faults": utterance_faults} | scored.row
