"""Forward and backward passes of the codec's training, on fixed tensors for CUDA graphs."""

from __future__ import annotations

import random
from typing import NamedTuple

import torch
from torch import Tensor, nn

from engine.protocol.request import SAMPLES_PER_FRAME
from scripts.train_pocket.codec.audio import Audio
from scripts.train_pocket.codec.discriminators import Discriminators, adversarial_loss, discriminator_loss, feature_loss
from scripts.train_pocket.codec.losses import MelDistance, PhonemeHead, correlation_loss
from scripts.train_pocket.codec.model import Codec

PIECE_FRAMES = 64
"""Frames of a piece, all of which the transformers process: 5.12 s."""
_DECODED_FRAMES = 16
"""Frames of a piece that are decoded to samples. Convolutions are expensive and have a short context."""
_CONTEXT_FRAMES = 4
"""Frames before them that are only context of the convolutions."""
_START_PROBABILITY = 0.1
"""Probability that the decoded frames start the piece, without context, as in a new stream."""
_MEL, _FEATURES, _COMMITMENT, _PHONEMES = 15.0, 2.0, 0.25, 2.0


class GeneratorOutput(NamedTuple):
    """samples: the codec's output. targets, codes: see ``Quantized``. figures: to print."""

    samples: Tensor
    targets: Tensor
    codes: Tensor
    figures: dict[str, Tensor]


class Batch:
    """The input tensors of all steps.

    samples: pieces [batch, samples]. labels: their phonemes [batch, frames, 4]. frames: indices of the latents that are
    decoded. kept: indices of the decoded samples without those of the context. real: the same samples of the pieces.
    generated: the codec's output for them.
    """

    def __init__(self, size: int, device: torch.device) -> None:
        decoded = _DECODED_FRAMES * SAMPLES_PER_FRAME
        self.samples = torch.zeros(size, PIECE_FRAMES * SAMPLES_PER_FRAME, device=device)
        self.labels = torch.zeros(size, PIECE_FRAMES, 4, dtype=torch.long, device=device)
        self.frames = torch.zeros(_DECODED_FRAMES + _CONTEXT_FRAMES, dtype=torch.long, device=device)
        self.kept = torch.zeros(decoded, dtype=torch.long, device=device)
        self.real = torch.zeros(size, decoded, device=device)
        self.generated = torch.zeros(size, decoded, device=device)
        self._indices = torch.arange(max(decoded, PIECE_FRAMES), device=device)

    def fill(self, audio: Audio, generator: torch.Generator) -> None:
        """Draw new random pieces, and a new position of the decoded frames."""
        pieces = audio.draw(len(self.samples), PIECE_FRAMES, generator)
        self.samples.copy_(pieces.samples)
        self.labels.copy_(pieces.labels)
        begin = (
            0
            if random.random() < _START_PROBABILITY
            else random.randint(_CONTEXT_FRAMES, PIECE_FRAMES - _DECODED_FRAMES)
        )
        context = min(begin, _CONTEXT_FRAMES)
        self.frames.copy_(self._indices[: len(self.frames)] + (begin - context))
        self.kept.copy_(self._indices[: len(self.kept)] + context * SAMPLES_PER_FRAME)
        first = begin * SAMPLES_PER_FRAME
        self.real.copy_(self.samples[:, first : first + len(self.kept)])


class Passes(nn.Module):
    """Forward and backward passes of codec and discriminators.

    correlation_weight: weight of ``correlation_loss``. frozen: train only Code2Wav.
    """

    def __init__(
        self,
        codec: Codec,
        discriminators: Discriminators,
        phoneme_head: PhonemeHead,
        batch: Batch,
        *,
        correlation_weight: float,
        frozen: bool,
    ) -> None:
        super().__init__()
        self.codec, self.discriminators, self.phoneme_head = codec, discriminators, phoneme_head
        self._mel, self._batch = MelDistance(), batch
        self._correlation_weight, self._frozen = correlation_weight, frozen

    def codec_parameters(self) -> list[nn.Parameter]:
        """Return the trained parameters except for the discriminators'."""
        if self._frozen:
            return list(self.codec.decoder.parameters())
        return [*self.codec.parameters(), *self.phoneme_head.parameters()]

    def discriminator_parameters(self) -> list[nn.Parameter]:
        """Return the parameters of the discriminators."""
        return list(self.discriminators.parameters())

    def codec_pass(self, adversarial: bool, quantize: bool = True) -> GeneratorOutput:
        """Compute the codec's gradients. adversarial: use the discriminators. quantize: quantize the latents."""
        _drop_gradients(self.codec_parameters())
        batch = self._batch
        with torch.autocast(batch.samples.device.type, torch.bfloat16, cache_enabled=False):
            with torch.set_grad_enabled(not self._frozen):
                quantized = self.codec.quantizer(self.codec.encoder(batch.samples), quantize)
            latents = self.codec.decoder.latents(quantized.vectors).index_select(2, batch.frames)
            generated_samples = self.codec.decoder.samples(latents).float().index_select(1, batch.kept)
            mel = self._mel(generated_samples, batch.real)
            loss, figures = _MEL * mel, {"mel": mel}
            if not self._frozen:
                phonemes, accuracy = self.phoneme_head(quantized.semantic, batch.labels)
                loss = loss + _COMMITMENT * quantized.commitment + _PHONEMES * phonemes
                figures |= {"commitment": quantized.commitment, "phonemes": phonemes, "phoneme_accuracy": accuracy}
                correlation = torch.stack([correlation_loss(each.float()) for each in quantized.projected]).sum()
                loss = loss + self._correlation_weight * correlation
                figures |= {"correlation": correlation, "rank": effective_dimensions(quantized.targets[1])}
            if adversarial:
                loss = loss + self._adversarial_terms(generated_samples, figures)
        loss.backward()
        figures = {name: value.detach() for name, value in figures.items()}
        return GeneratorOutput(generated_samples.detach(), quantized.targets, quantized.codes, figures)

    def _adversarial_terms(self, generated_samples: Tensor, figures: dict[str, Tensor]) -> Tensor:
        self.discriminators.requires_grad_(False)
        real, generated = self.discriminators(self._batch.real), self.discriminators(generated_samples)
        self.discriminators.requires_grad_(True)
        adversarial, features = adversarial_loss(generated), feature_loss(real, generated)
        figures |= {"adversarial": adversarial, "features": features}
        return adversarial + _FEATURES * features

    def discriminator_pass(self) -> Tensor:
        """Compute the discriminators' gradients for the real and the last generated samples."""
        _drop_gradients(self.discriminator_parameters())
        batch = self._batch
        with torch.autocast(batch.samples.device.type, torch.bfloat16, cache_enabled=False):
            loss = discriminator_loss(self.discriminators(torch.cat((batch.real, batch.generated))))
        loss.backward()
        return loss.detach()


def effective_dimensions(x: Tensor) -> Tensor:
    """Return the effective dimensions of x [n, width]: the participation ratio of its covariance's eigenvalues."""
    centered = x - x.mean(0)
    covariance = centered.T @ centered / len(x)  # torch.cov synchronizes with the device, which a graph cannot capture
    return covariance.trace().square() / covariance.square().sum()


def _drop_gradients(parameters: list[nn.Parameter]) -> None:
    for parameter in parameters:
        parameter.grad = None
