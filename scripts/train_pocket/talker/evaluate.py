"""Evaluates the prediction of held-out utterances, frame by frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from scripts.train_pocket.talker.batches import NO_TARGET
from scripts.train_pocket.talker.feed import Rows
from scripts.train_pocket.talker.losses import losses, score
from scripts.train_pocket.talker.model import TrainableTalker


@dataclass(frozen=True, slots=True)
class Report:
    """Means over frames.

    first: nats of codebook 0 and eos. books: nats of codebooks 1 to 15. accuracies: of codebooks 0 to 15, how often the
    most likely code was correct. eos_precision, eos_recall: of the predicted ends.
    """

    first: float
    books: list[float]
    accuracies: list[float]
    eos_precision: float
    eos_recall: float

    def __str__(self) -> str:
        books, mean = " ".join(f"{each:.2f}" for each in self.books), sum(self.books) / len(self.books)
        hits = " ".join(f"{100 * each:.0f}" for each in self.accuracies)
        ends = f"eos precision {self.eos_precision:.2f} recall {self.eos_recall:.2f}"
        return f"c0 {self.first:.3f} books {mean:.3f} | {ends} | nats {books} | hits % {hits}"


@torch.no_grad()
def evaluate(model: TrainableTalker, batches: Sequence[Rows]) -> Report:
    """Return the report on one or more batches."""
    sums = torch.stack([_figures(model, rows) for rows in batches]).sum(0).tolist()
    books = model.shape.codebooks - 1
    targets_count, ends, predicted_ends, correct_ends, first, correct, frames, *rest = sums
    return Report(
        first=first / targets_count,
        books=[each / frames for each in rest[:books]],
        accuracies=[correct / (targets_count - ends), *(each / frames for each in rest[books:])],
        eos_precision=correct_ends / max(predicted_ends, 1.0),
        eos_recall=correct_ends / ends,
    )


def _figures(model: TrainableTalker, rows: Rows) -> Tensor:
    """Return sums over a batch.

    Of codebook 0: rows with a target, ends, predicted ends, correctly predicted ends, nats, hits. Of the others: number
    of frames, then nats and hits of each codebook.
    """
    scores = score(model, rows)
    means, frames = losses(scores), scores.books.shape[1]
    has_target = scores.first_targets != NO_TARGET
    prediction, target = scores.first.argmax(-1)[has_target], scores.first_targets[has_target]
    is_end, predicts_end = target == model.codes, prediction == model.codes
    first = torch.stack((has_target.sum(), is_end.sum(), predicts_end.sum(), (predicts_end & is_end).sum()))
    hits = (scores.books.argmax(-1) == scores.book_targets).sum(1)
    nats = [means.first[None] * len(target), ((prediction == target) & ~is_end).sum()[None]]
    return torch.cat([first, *nats, torch.full_like(first[:1], frames), means.books * frames, hits]).double()
