"""What the encoder is trained for: to tell speakers apart, and to know the voices that they are mixed of."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SpeakerObjective(nn.Module):
    """Additive angular margin softmax (ArcFace, Deng et al., 2019) over speakers; their mixtures from the vector.

    mixtures: float32 [speakers, voices], rows summing to one.
    """

    def __init__(self, width: int, mixtures: Tensor, *, scale: float) -> None:
        super().__init__()
        self.mixtures: Tensor
        self.register_buffer("mixtures", mixtures, persistent=False)
        self.centres = nn.Parameter(torch.randn(len(mixtures), width) / math.sqrt(width))
        self.voices = nn.Linear(width, mixtures.shape[1])
        self._scale = scale

    def cosines(self, vectors: Tensor) -> Tensor:
        """Of vectors [n, width] with every speaker's centre [n, speakers]."""
        return F.normalize(vectors) @ F.normalize(self.centres).T

    def speaker_loss(self, cosines: Tensor, speakers: Tensor, margin: float) -> Tensor:
        """Cross-entropy with the right speaker's angle made larger by margin (radians)."""
        right = cosines.gather(1, speakers[:, None])
        sine = (1 - right.square()).clamp(min=1e-6).sqrt()
        turned = right * math.cos(margin) - sine * math.sin(margin)
        # An angle beyond pi - margin would get easier by turning: there the margin is subtracted.
        harder = torch.where(right > -math.cos(margin), turned, right - math.sin(margin) * margin)
        return F.cross_entropy(cosines.scatter(1, speakers[:, None], harder) * self._scale, speakers)

    def mixture_loss(self, vectors: Tensor, speakers: Tensor) -> Tensor:
        """Kullback-Leibler divergence of the mixture read from the vector's direction to the true one."""
        return F.kl_div(self._log_mixtures(vectors), self.mixtures[speakers], reduction="batchmean")

    def mixture_error(self, vectors: Tensor, speakers: Tensor) -> Tensor:
        """Mean weight given to wrong voices, 0 to 1 (total variation)."""
        return (self._log_mixtures(vectors).exp() - self.mixtures[speakers]).abs().sum(1).mean() / 2

    def _log_mixtures(self, vectors: Tensor) -> Tensor:
        directions = F.normalize(vectors) * math.sqrt(vectors.shape[1])
        return F.log_softmax(self.voices(directions), -1)
