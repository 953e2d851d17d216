"""Evaluates the speaker encoder on held-out utterances and on held-out speakers."""

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
_MAX_UTTERANCES = 2400

Encode = Callable[[Tensor], Tensor]
"""Maps float32 clips [batch, n] to vectors [batch, width]."""


@torch.no_grad()
def report(encode: Encode, objective: SpeakerObjective, corpus: Corpus, split: Split) -> str:
    """Return one line with the equal error rates of clean and augmented clips of three seconds."""
    parts = []
    for name, utterances in (("seen", split.seen), ("unseen", split.unseen)):
        utterances = utterances[:_MAX_UTTERANCES]
        if not len(utterances):
            continue
        speakers = corpus.speakers[utterances]
        clean = embed(encode, corpus, utterances)
        augmented_vectors = embed(encode, corpus, utterances, augmented=True)
        parts.append(
            f"{name}: EER {100 * equal_error_rate(clean, speakers):.2f} %"
            f" (augmented {100 * equal_error_rate(augmented_vectors, speakers):.2f} %)"
            f" mixture error {objective.mixture_error(clean, speakers).item():.3f}"
            f" within/all {variance_within(clean, speakers):.3f}"
        )
        if name == "seen":
            accuracy = (objective.cosines(clean).argmax(1) == speakers).float().mean().item()
            parts.append(f"accuracy {100 * accuracy:.1f} %")
    return "; ".join(parts) or "nothing held out"


def embed(encode: Encode, corpus: Corpus, utterances: Tensor, *, augmented: bool = False) -> Tensor:
    """Return the vectors [n, width] of the middle three seconds of each utterance."""
    generator = torch.Generator(corpus.samples.device).manual_seed(0)
    vectors = []
    for batch in utterances.split(_BATCH):
        middle = torch.full((len(batch),), 0.5, device=batch.device)
        clips = corpus.crops(batch, _SECONDS * SAMPLE_RATE, middle)
        vectors.append(encode(Augmenter(generator)(clips) if augmented else clips).float())
    return torch.cat(vectors)


def equal_error_rate(vectors: Tensor, speakers: Tensor) -> float:
    """Return the equal error rate of the cosines of all pairs; NaN without pairs of both kinds."""
    directions = F.normalize(vectors)
    first, second = torch.triu_indices(len(vectors), len(vectors), 1, device=vectors.device)
    same = (speakers[first] == speakers[second])[(directions @ directions.T)[first, second].argsort()]
    rejected = same.cumsum(0) / same.sum()
    accepted = 1 - (~same).cumsum(0) / (~same).sum()
    index = (rejected - accepted).abs().argmin()
    return ((rejected[index] + accepted[index]) / 2).item()


def variance_within(vectors: Tensor, speakers: Tensor) -> float:
    """Return the variance around the speakers' means divided by the variance around the overall mean."""
    _, speaker_index = speakers.unique(return_inverse=True)
    counts = torch.bincount(speaker_index)[:, None]
    means = (
        torch.zeros(len(counts), vectors.shape[1], device=vectors.device).index_add_(0, speaker_index, vectors) / counts
    )
    within = (vectors - means[speaker_index]).square().sum()
    return (within / (vectors - vectors.mean(0)).square().sum().clamp(min=1e-12)).item()
