"""Keeps the weights with the lowest loss on held-out utterances, in case the talker overfits later."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path

from scripts.train_pocket.talker.evaluate import Report, evaluate
from scripts.train_pocket.talker.feed import Rows
from scripts.train_pocket.talker.saving import write_weights
from scripts.train_pocket.talker.trainer import Trainer

BEST = "best.safetensors"


class Best:
    """The weights with the lowest loss so far, in ``folder``. The loss is that of codebook 0 plus the others' mean.

    Attributes:
        steps: after which the loss was lowest; 0 before the first comparison.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._loss = folder, inf
        self.steps = 0

    def compare(self, trainer: Trainer, held_out: Sequence[Rows], progress: float) -> Report:
        """Evaluate the averaged weights, and write them if no earlier ones were better. Return the report."""
        report = evaluate(trainer.average, held_out)
        loss = report.first + sum(report.books) / len(report.books)
        if loss < self._loss:
            self._loss, self.steps = loss, trainer.steps
            self._folder.mkdir(parents=True, exist_ok=True)
            write_weights(trainer, self._folder / BEST, progress)
        return report
