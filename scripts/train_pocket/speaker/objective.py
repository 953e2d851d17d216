"""The losses of the speaker encoder: speaker classification, and prediction of the speakers' mixtures."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SpeakerObjective(nn.Module):
    """Additive angular margin softmax (ArcFace, Deng et al., 2019) over speakers, and mixtures from vectors.

    mixtures: float32 [speakers, voices], rows with a sum of one.
    """

    def __init__(self, width: int, mixtures: Tensor, *, scale: float) -> None:
        super().__init__()
        self.mixtures: Tensor
        self.register_buffer("mixtures", mixtures, persistent=False)
        self.centres = nn.Parameter(torch.randn(len(mixtures), width) / math.sqrt(width))
        self.voices = nn.Linear(width, mixtures.shape[1])
        self._scale = scale

    def cosines(self, vectors: Tensor) -> Tensor:
        """Return the cosines [n, speakers] of vectors [n, width] with the center of each speaker."""
        return F.normalize(vectors) @ F.normalize(self.centres).T

    def speaker_loss(self, cosines: Tensor, speakers: Tensor, margin: float) -> Tensor:
        """Return the cross-entropy, with the angle of the correct speaker increased by ``margin`` (radians)."""
        target = cosines.gather(1, speakers[:, None])
        sine = (1 - target.square()).clamp(min=1e-6).sqrt()
        shifted = target * math.cos(margin) - sine * math.sin(margin)
        # Beyond pi - margin a larger angle would have a larger cosine: there the margin is subtracted from the cosine.
        with_margin = torch.where(target > -math.cos(margin), shifted, target - math.sin(margin) * margin)
        return F.cross_entropy(cosines.scatter(1, speakers[:, None], with_margin) * self._scale, speakers)

    def mixture_loss(self, vectors: Tensor, speakers: Tensor) -> Tensor:
        """Return the KL divergence of the mixtures predicted from the vectors' directions from the true ones."""
        return F.kl_div(self._log_mixtures(vectors), self.mixtures[speakers], reduction="batchmean")

    def mixture_error(self, vectors: Tensor, speakers: Tensor) -> Tensor:
        """Return the mean total variation distance of the predicted mixtures, 0 to 1."""
        return (self._log_mixtures(vectors).exp() - self.mixtures[speakers]).abs().sum(1).mean() / 2

    def _log_mixtures(self, vectors: Tensor) -> Tensor:
        directions = F.normalize(vectors) * math.sqrt(vectors.shape[1])
        return F.log_softmax(self.voices(directions), -1)
