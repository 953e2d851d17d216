"""What is minimised: cross entropies of codebook 0, eos among it, and of codebooks 1 to 15."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from scripts.train_pocket.config import TalkerTraining
from scripts.train_pocket.talker.batches import NO_TARGET
from scripts.train_pocket.talker.feed import Rows
from scripts.train_pocket.talker.model import TrainableTalker


class Scores(NamedTuple):
    """Logits and what they should have said.

    first [n, codes + 1] and its targets [n], of which the last class is eos and NO_TARGET does not count; books
    [15, m, codes], targets [15, m].
    """

    first: Tensor
    first_targets: Tensor
    books: Tensor
    book_targets: Tensor


class Losses(NamedTuple):
    """Mean cross entropies in nats: of codebook 0 and eos, and of each further codebook [15]."""

    first: Tensor
    books: Tensor


def score(model: TrainableTalker, rows: Rows, *, code_noise: float = 0.0) -> Scores:
    """Run both models over a batch, teacher-forced.

    code_noise: share of the talker's input codes that are those of another frame; the predictor's stay true.
    """
    given = with_noise(rows.codes, code_noise) if code_noise else rows.codes
    hidden = model.hidden(rows.text, given, rows.xvectors, rows.xvector_rows).flatten(0, 1)
    frames = rows.codes.flatten(0, 1)[rows.before_frames + 1]
    books = model.book_logits(hidden.index_select(0, rows.before_frames), frames)
    return Scores(model.logits(hidden), rows.targets.flatten(), books, frames[:, 1:].T)


def losses(scores: Scores) -> Losses:
    """The means over frames."""
    first = F.cross_entropy(scores.first.float(), scores.first_targets, ignore_index=NO_TARGET)
    books = F.cross_entropy(scores.books.float().flatten(0, 1), scores.book_targets.flatten(), reduction="none")
    return Losses(first, books.view_as(scores.book_targets).mean(1))


def total(found: Losses, settings: TalkerTraining) -> Tensor:
    """The weighted sum that is minimised; the books' weights average to ``predictor_weight``."""
    weights = settings.book_decay ** torch.arange(len(found.books), device=found.books.device)
    return found.first + settings.predictor_weight * (found.books * weights).sum() / weights.sum()


def with_noise(codes: Tensor, share: float) -> Tensor:
    """Codes [B, L, 16] with some of the frames' replaced by those that another frame has in the same codebook."""
    flat = codes.flatten(0, 1)
    other = flat[torch.randint(len(flat), flat.shape[:1], device=flat.device)]
    is_frame, other_is_frame = flat[:, -1:] >= 0, other[:, -1:] >= 0
    replaced = (torch.rand(flat.shape, device=flat.device) < share) & is_frame & other_is_frame
    return torch.where(replaced, other, flat).view_as(codes)
