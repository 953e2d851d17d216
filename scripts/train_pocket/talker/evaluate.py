"""How well held-back utterances are foretold, frame by frame."""

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

    first: nats of codebook 0 and eos; books: nats of codebooks 1 to 15; accuracies: of codebooks 0 to 15, how often the
    likeliest code was the true one; eos_precision: of the ends foretold, how many were true; eos_recall: of the true
    ends, how many were foretold.
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
    """The report of at least one batch."""
    found = torch.stack([_figures(model, rows) for rows in batches]).sum(0).tolist()
    books = model.shape.codebooks - 1
    asked, ends, foretold, both, first, right, frames, *rest = found
    return Report(
        first=first / asked,
        books=[each / frames for each in rest[:books]],
        accuracies=[right / (asked - ends), *(each / frames for each in rest[books:])],
        eos_precision=both / max(foretold, 1.0),
        eos_recall=both / ends,
    )


def _figures(model: TrainableTalker, rows: Rows) -> Tensor:
    """Sums over a batch.

    Of codebook 0: rows asked, ends, ends foretold, those of them that were true, nats, hits. Of the others: frames,
    and each book's nats and hits.
    """
    scores = score(model, rows)
    found, frames = losses(scores), scores.books.shape[1]
    asked = scores.first_targets != NO_TARGET
    guess, truth = scores.first.argmax(-1)[asked], scores.first_targets[asked]
    is_end, says_end = truth == model.codes, guess == model.codes
    first = torch.stack((asked.sum(), is_end.sum(), says_end.sum(), (says_end & is_end).sum()))
    hits = (scores.books.argmax(-1) == scores.book_targets).sum(1)
    nats = [found.first[None] * len(truth), ((guess == truth) & ~is_end).sum()[None]]
    return torch.cat([first, *nats, torch.full_like(first[:1], frames), found.books * frames, hits]).double()
