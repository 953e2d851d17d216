"""How well vectors identify speakers: on held-back utterances, and on speakers that training never heard."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from scripts.train_pocket.speaker.augment import Augmenter
from scripts.train_pocket.speaker.corpus import Corpus, Split
from scripts.train_pocket.speaker.objective import SpeakerObjective
from scripts.train_pocket.speaker.shards import SAMPLE_RATE

_SECONDS = 3
_BATCH = 256
_MOST = 2400

Encode = Callable[[Tensor], Tensor]
"""float32 clips [batch, n] -> vectors [batch, width]."""


@torch.no_grad()
def report(encode: Encode, objective: SpeakerObjective, corpus: Corpus, split: Split) -> str:
    """One line; equal error rates of clean and augmented clips of three seconds."""
    words = []
    for name, utterances in (("seen", split.seen), ("unseen", split.unseen)):
        utterances = utterances[:_MOST]
        if not len(utterances):
            continue
        speakers = corpus.speakers[utterances]
        clean = embed(encode, corpus, utterances)
        worn = embed(encode, corpus, utterances, augmented=True)
        words.append(
            f"{name}: EER {100 * equal_error_rate(clean, speakers):.2f} %"
            f" (augmented {100 * equal_error_rate(worn, speakers):.2f} %)"
            f" mixture error {objective.mixture_error(clean, speakers).item():.3f}"
            f" within/all {variance_within(clean, speakers):.3f}"
        )
        if name == "seen":
            right = (objective.cosines(clean).argmax(1) == speakers).float().mean().item()
            words.append(f"accuracy {100 * right:.1f} %")
    return "; ".join(words) or "nothing held out"


def embed(encode: Encode, corpus: Corpus, utterances: Tensor, *, augmented: bool = False) -> Tensor:
    """Vectors [n, width] of the middle three seconds of each."""
    generator = torch.Generator(corpus.samples.device).manual_seed(0)
    vectors = []
    for batch in utterances.split(_BATCH):
        middle = torch.full((len(batch),), 0.5, device=batch.device)
        clips = corpus.crops(batch, _SECONDS * SAMPLE_RATE, middle)
        vectors.append(encode(Augmenter(generator)(clips) if augmented else clips).float())
    return torch.cat(vectors)


def equal_error_rate(vectors: Tensor, speakers: Tensor) -> float:
    """Of cosines over all pairs; nan when no two are of one speaker, or all are."""
    directions = F.normalize(vectors)
    first, second = torch.triu_indices(len(vectors), len(vectors), 1, device=vectors.device)
    same = (speakers[first] == speakers[second])[(directions @ directions.T)[first, second].argsort()]
    missed = same.cumsum(0) / same.sum()
    taken = 1 - (~same).cumsum(0) / (~same).sum()
    at = (missed - taken).abs().argmin()
    return ((missed[at] + taken[at]) / 2).item()


def variance_within(vectors: Tensor, speakers: Tensor) -> float:
    """Variance around the own speaker's mean over variance around the mean of all."""
    _, own = speakers.unique(return_inverse=True)
    counts = torch.bincount(own)[:, None]
    means = torch.zeros(len(counts), vectors.shape[1], device=vectors.device).index_add_(0, own, vectors) / counts
    within = (vectors - means[own]).square().sum()
    return (within / (vectors - vectors.mean(0)).square().sum().clamp(min=1e-12)).item()
