"""What one step of the codec's training computes, on tensors that stay where they are."""

from __future__ import annotations

import random
from typing import NamedTuple

import torch
from torch import Tensor, nn

from engine.protocol.request import SAMPLES_PER_FRAME
from scripts.train_pocket.codec.audio import Audio
from scripts.train_pocket.codec.discriminators import Critics, critics_loss, deceit_loss, feature_loss
from scripts.train_pocket.codec.losses import MelDistance, PhonemeHead, crowding
from scripts.train_pocket.codec.model import Codec

HEARD = 64
"""Frames of a piece that the transformers see: 5.12 s."""
_JUDGED = 16
"""Frames of it that become samples: convolutions are dear and look back a few frames only."""
_LED_IN = 4
"""Frames before them that only fill the convolutions."""
_FROM_THE_START = 0.1
"""How often it is the piece's first frames, where the convolutions start empty as with a new stream."""
_MEL, _FEATURES, _COMMITMENT, _PHONETIC = 15.0, 2.0, 0.25, 2.0


class Made(NamedTuple):
    """samples: what the codec made; targets, codes: see ``Quantized``; figures: to print."""

    samples: Tensor
    targets: Tensor
    codes: Tensor
    figures: dict[str, Tensor]


class Batch:
    """The tensors that every step finds its data in.

    samples [batch, heard samples], labels [batch, frames, 4]: a piece; frames: indices of the latents that are
    decoded; kept: indices of the samples that are judged; real: those of the piece itself.
    """

    def __init__(self, size: int, device: torch.device) -> None:
        judged = _JUDGED * SAMPLES_PER_FRAME
        self.samples = torch.zeros(size, HEARD * SAMPLES_PER_FRAME, device=device)
        self.labels = torch.zeros(size, HEARD, 4, dtype=torch.long, device=device)
        self.frames = torch.zeros(_JUDGED + _LED_IN, dtype=torch.long, device=device)
        self.kept = torch.zeros(judged, dtype=torch.long, device=device)
        self.real = torch.zeros(size, judged, device=device)
        self.made = torch.zeros(size, judged, device=device)
        self._counted = torch.arange(max(judged, HEARD), device=device)

    def fill(self, audio: Audio, generator: torch.Generator) -> None:
        """New random pieces, and a new place in them."""
        pieces = audio.draw(len(self.samples), HEARD, generator)
        self.samples.copy_(pieces.samples)
        self.labels.copy_(pieces.labels)
        begin = 0 if random.random() < _FROM_THE_START else random.randint(_LED_IN, HEARD - _JUDGED)
        led_in = min(begin, _LED_IN)
        self.frames.copy_(self._counted[: len(self.frames)] + (begin - led_in))
        self.kept.copy_(self._counted[: len(self.kept)] + led_in * SAMPLES_PER_FRAME)
        first = begin * SAMPLES_PER_FRAME
        self.real.copy_(self.samples[:, first : first + len(self.kept)])


class Passes(nn.Module):
    """Forward and backward of codec and critics. crowding: weight of that loss; frozen: only Code2Wav learns."""

    def __init__(
        self, codec: Codec, critics: Critics, phonetic: PhonemeHead, batch: Batch, *, crowding: float, frozen: bool
    ) -> None:
        super().__init__()
        self.codec, self.critics, self.phonetic = codec, critics, phonetic
        self._mel, self._batch, self._crowding, self._frozen = MelDistance(), batch, crowding, frozen

    def maker_parameters(self) -> list[nn.Parameter]:
        """What learns, the critics left out."""
        if self._frozen:
            return list(self.codec.decoder.parameters())
        return [*self.codec.parameters(), *self.phonetic.parameters()]

    def critic_parameters(self) -> list[nn.Parameter]:
        """The critics'."""
        return list(self.critics.parameters())

    def make(self, judged: bool, quantise: bool = True) -> Made:
        """The codec's gradients; judged: by the critics too; quantise: else latents go on as they are."""
        _forget(self.maker_parameters())
        batch = self._batch
        with torch.autocast(batch.samples.device.type, torch.bfloat16, cache_enabled=False):
            with torch.set_grad_enabled(not self._frozen):
                quantized = self.codec.quantizer(self.codec.encoder(batch.samples), quantise)
            latents = self.codec.decoder.latents(quantized.vectors).index_select(2, batch.frames)
            made = self.codec.decoder.samples(latents).float().index_select(1, batch.kept)
            mel = self._mel(made, batch.real)
            loss, figures = _MEL * mel, {"mel": mel}
            if not self._frozen:
                phonetic, right = self.phonetic(quantized.semantic, batch.labels)
                loss = loss + _COMMITMENT * quantized.commitment + _PHONETIC * phonetic
                figures |= {"commit": quantized.commitment, "phones": phonetic, "right": right}
                crowded = torch.stack([crowding(each.float()) for each in quantized.projected]).sum()
                loss = loss + self._crowding * crowded
                figures |= {"crowded": crowded, "rank": dimensions(quantized.targets[1])}
            if judged:
                loss = loss + self._deceive(made, figures)
        loss.backward()
        figures = {name: value.detach() for name, value in figures.items()}
        return Made(made.detach(), quantized.targets, quantized.codes, figures)

    def _deceive(self, made: Tensor, figures: dict[str, Tensor]) -> Tensor:
        self.critics.requires_grad_(False)
        real, believed = self.critics(self._batch.real), self.critics(made)
        self.critics.requires_grad_(True)
        deceit, features = deceit_loss(believed), feature_loss(real, believed)
        figures |= {"deceit": deceit, "features": features}
        return deceit + _FEATURES * features

    def criticise(self) -> Tensor:
        """The critics' gradients on the batch's real samples and those last made."""
        _forget(self.critic_parameters())
        batch = self._batch
        with torch.autocast(batch.samples.device.type, torch.bfloat16, cache_enabled=False):
            loss = critics_loss(self.critics(torch.cat((batch.real, batch.made))))
        loss.backward()
        return loss.detach()


def dimensions(x: Tensor) -> Tensor:
    """How many dimensions x [n, width] really has: the participation ratio of its covariance's eigenvalues."""
    centred = x - x.mean(0)
    covariance = centred.T @ centred / len(x)  # torch.cov waits for the device, which no graph can record
    return covariance.trace().square() / covariance.square().sum()


def _forget(parameters: list[nn.Parameter]) -> None:
    for parameter in parameters:
        parameter.grad = None
