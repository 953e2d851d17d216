"""The losses: cross-entropies of codebook 0 with eos, and of codebooks 1 to 15."""

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
    """Logits and their targets.

    first: [n, codes + 1], the last class is eos. first_targets: [n]; NO_TARGET is ignored. books: [15, m, codes].
    book_targets: [15, m].
    """

    first: Tensor
    first_targets: Tensor
    books: Tensor
    book_targets: Tensor


class Losses(NamedTuple):
    """Mean cross-entropies in nats: of codebook 0 with eos, and of each other codebook [15]."""

    first: Tensor
    books: Tensor


def score(model: TrainableTalker, rows: Rows, *, code_noise: float = 0.0) -> Scores:
    """Run both models on a batch with teacher forcing.

    code_noise: share of the talker's input codes that are replaced by those of another frame. The predictor's are not.
    """
    input_codes = with_noise(rows.codes, code_noise) if code_noise else rows.codes
    hidden = model.hidden(rows.text, input_codes, rows.xvectors, rows.xvector_rows).flatten(0, 1)
    frames = rows.codes.flatten(0, 1)[rows.before_frames + 1]
    books = model.book_logits(hidden.index_select(0, rows.before_frames), frames)
    return Scores(model.logits(hidden), rows.targets.flatten(), books, frames[:, 1:].T)


def losses(scores: Scores) -> Losses:
    """Return the means over frames."""
    first = F.cross_entropy(scores.first.float(), scores.first_targets, ignore_index=NO_TARGET)
    books = F.cross_entropy(scores.books.float().flatten(0, 1), scores.book_targets.flatten(), reduction="none")
    return Losses(first, books.view_as(scores.book_targets).mean(1))


def total(means: Losses, settings: TalkerTraining) -> Tensor:
    """Return the weighted sum. The mean weight of codebooks 1 to 15 is ``predictor_weight``."""
    weights = settings.book_decay ** torch.arange(len(means.books), device=means.books.device)
    return means.first + settings.predictor_weight * (means.books * weights).sum() / weights.sum()


def with_noise(codes: Tensor, share: float) -> Tensor:
    """Return codes [B, L, 16] in which some codes are replaced by those of another frame in the same codebook."""
    flat = codes.flatten(0, 1)
    other = flat[torch.randint(len(flat), flat.shape[:1], device=flat.device)]
    is_frame, other_is_frame = flat[:, -1:] >= 0, other[:, -1:] >= 0
    replaced = (torch.rand(flat.shape, device=flat.device) < share) & is_frame & other_is_frame
    return torch.where(replaced, other, flat).view_as(codes)
