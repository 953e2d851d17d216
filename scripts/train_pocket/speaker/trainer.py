"""The training step of the speaker encoder, and its saved state."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.checkpoint.architecture import SpeakerEncoderArchitecture
from scripts.train_pocket.config import SpeakerTraining
from scripts.train_pocket.speaker.augment import Augmenter
from scripts.train_pocket.speaker.corpus import Corpus, Sampler
from scripts.train_pocket.speaker.ecapa import Ecapa
from scripts.train_pocket.speaker.mel import log_mels
from scripts.train_pocket.speaker.objective import SpeakerObjective
from scripts.train_pocket.speaker.shards import SAMPLE_RATE
from scripts.train_pocket.speaker.unfolding import unfold

_WARM_UP = 0.05
_MARGIN_FROM, _MARGIN_FULL = 0.1, 0.4
_GRADIENT_NORM = 5.0
_CENTER_SECONDS = 3
_CENTER_CLIPS = 6
"""Clips per speaker, on average, for the initial centers."""
_NORM_CLIPS = 256


class Trainer:
    """Trains the encoder. mixtures: float32 [speakers, voices]. utterances: indices of the training utterances."""

    def __init__(
        self,
        settings: SpeakerTraining,
        architecture: SpeakerEncoderArchitecture,
        corpus: Corpus,
        utterances: Tensor,
        mixtures: Tensor,
    ) -> None:
        self._settings, self._architecture, self._corpus = settings, architecture, corpus
        self._device = corpus.samples.device
        self.encoder = Ecapa(architecture, training_norms=True).to(self._device)
        self.objective = SpeakerObjective(architecture.width, mixtures, scale=settings.scale).to(self._device)
        self._sampler = Sampler(corpus, utterances)
        self._augment = Augmenter(torch.Generator(self._device).manual_seed(torch.initial_seed()))
        self._optimizer = _optimizer([self.encoder, self.objective], settings, self._device)
        self.steps = 0
        self.seconds = 0.0

    def step(self, progress: float) -> Tensor:
        """Train on one batch. progress: of the whole run, 0 to 1.

        Returns (speaker loss, mixture loss, accuracy) on the device, without synchronization.
        """
        vectors, speakers = self._vectors()
        cosines = self.objective.cosines(vectors)
        loss = self.objective.speaker_loss(cosines, speakers, self._settings.margin * _ramp(progress))
        mixture_loss = self.objective.mixture_loss(vectors, speakers)
        for group in self._optimizer.param_groups:
            group["lr"] = self._settings.learning_rate * _rate(progress)
        self._optimizer.zero_grad(set_to_none=True)
        (loss + self._settings.mixture_weight * mixture_loss).backward()
        nn.utils.clip_grad_norm_(self.encoder.parameters(), _GRADIENT_NORM)
        self._optimizer.step()
        self.steps += 1
        accuracy = (cosines.argmax(1) == speakers).float().mean()
        return torch.stack((loss, mixture_loss, accuracy)).detach()

    def encode(self, clips: Tensor) -> Tensor:
        """Map clips [batch, n] to vectors [batch, width]. On a GPU the convolutions are in bfloat16."""
        mels = log_mels(clips, self._architecture.sample_rate, self._architecture.mel_dim)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._device.type == "cuda"):
            return self.encoder(mels)

    def save(self, file: Path) -> None:
        """Write the state for ``resume`` atomically."""
        state = {
            "encoder": self.encoder.state_dict(),
            "objective": self.objective.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "steps": self.steps,
            "seconds": self.seconds,
        }
        temporary = file.with_suffix(".unfinished")
        torch.save(state, temporary)
        temporary.replace(file)

    def resume(self, file: Path) -> None:
        """Load the state that ``save`` wrote. Raises RuntimeError when it has other sizes."""
        state = torch.load(file, map_location=self._device, weights_only=True)
        self.encoder.load_state_dict(state["encoder"])
        self.objective.load_state_dict(state["objective"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.steps, self.seconds = state["steps"], state["seconds"]

    def begin_with(self, file: Path) -> None:
        """Load the folded weights of ``file``. The center of each speaker becomes the mean of some of its vectors."""
        clips = self._corpus.crops(
            self._sampler.draw(_NORM_CLIPS), _CENTER_SECONDS * SAMPLE_RATE, self._middle(_NORM_CLIPS)
        )
        unfold(self.encoder, file, log_mels(clips, self._architecture.sample_rate, self._architecture.mel_dim))
        self.encoder.eval()
        totals = torch.zeros_like(self.objective.centres)
        for _ in range(math.ceil(_CENTER_CLIPS * len(totals) / _NORM_CLIPS)):
            utterances = self._sampler.draw(_NORM_CLIPS)
            clips = self._corpus.crops(utterances, _CENTER_SECONDS * SAMPLE_RATE, self._middle(_NORM_CLIPS))
            with torch.no_grad():
                totals.index_add_(0, self._corpus.speakers[utterances], F.normalize(self.encode(clips).float()))
        self.encoder.train()
        found = totals.square().sum(1) > 0
        self.objective.centres.data[found] = F.normalize(totals[found])

    def _middle(self, count: int) -> Tensor:
        return torch.full((count,), 0.5, device=self._device)

    def _vectors(self) -> tuple[Tensor, Tensor]:
        """Return the vectors [batch, width] and speakers int64 [batch] of a batch of random crops of one length."""
        lengths = self._settings.crop_seconds
        seconds = lengths[int(torch.randint(len(lengths), ()))]
        utterances = self._sampler.draw(max(2, round(self._settings.batch_seconds / seconds)))
        positions = torch.rand(len(utterances), device=self._device)
        with torch.no_grad():
            clips = self._augment(self._corpus.crops(utterances, round(seconds * SAMPLE_RATE), positions))
        return self.encode(clips).float(), self._corpus.speakers[utterances]


def _optimizer(modules: list[nn.Module], settings: SpeakerTraining, device: torch.device) -> torch.optim.Optimizer:
    parameters = [parameter for module in modules for parameter in module.parameters()]
    groups: list[dict[str, Any]] = [
        {"params": [parameter for parameter in parameters if parameter.dim() > 1]},
        {"params": [parameter for parameter in parameters if parameter.dim() == 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups, settings.learning_rate, weight_decay=settings.weight_decay, fused=device.type == "cuda"
    )


def _rate(progress: float) -> float:
    """Return the factor of the learning rate: a linear warm-up, then a cosine decay to 0."""
    if progress < _WARM_UP:
        return progress / _WARM_UP + 1e-3
    return 0.5 + 0.5 * math.cos(math.pi * min(1.0, (progress - _WARM_UP) / (1 - _WARM_UP)))


def _ramp(progress: float) -> float:
    """Return the factor of the margin, which grows after the speakers are roughly separated."""
    return min(1.0, max(0.0, (progress - _MARGIN_FROM) / (_MARGIN_FULL - _MARGIN_FROM)))
