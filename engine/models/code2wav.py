"""Code2Wav: codec frames to samples, exactly, however the frames are cut into chunks (SPEC 9).

The decoder is causal, so all it must remember of a stream is the last few columns that each layer saw (SPEC 9.2).
Decoding new frames with that state gives the samples of the whole utterance, bit for bit on a CPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor

from engine.architecture import DecoderArchitecture
from engine.models.code2wav_blocks import ConvNeXt, ResidualUnit, SnakeBeta, StreamConv, Upsample
from engine.models.code2wav_transformer import CodecTransformer
from engine.models.stream_state import StateShape, StreamState
from engine.request import SAMPLES_PER_FRAME


@dataclass(frozen=True)
class _Block:
    snake: SnakeBeta
    upsample: Upsample
    units: list[ResidualUnit]


class Code2WavModel:
    """The codec's decoder. tensors: of speech_tokenizer/model.safetensors, without their ``decoder.`` prefix."""

    def __init__(
        self, tensors: Mapping[str, Tensor], architecture: DecoderArchitecture, *, device: torch.device
    ) -> None:
        weights = {name: tensor.to(device, torch.float32) for name, tensor in tensors.items()}
        self.architecture, self.device = architecture, device
        self._latents = _latent_table(weights, architecture)
        self._offsets = torch.arange(architecture.quantizers, device=device) * architecture.codebook_size
        self._pre_conv = StreamConv.load(weights, "pre_conv.conv")
        self._transformer = CodecTransformer(weights, architecture, device)
        self._upsample = [
            (Upsample.load(weights, f"upsample.{index}.0.conv", rate), ConvNeXt(weights, f"upsample.{index}.1"))
            for index, rate in enumerate(architecture.upsampling_ratios)
        ]
        self._first = StreamConv.load(weights, "decoder.0.conv")
        self._blocks = [
            _block(weights, f"decoder.{index + 1}", rate) for index, rate in enumerate(architecture.upsample_rates)
        ]
        last = len(self._blocks) + 1
        self._last_snake = SnakeBeta(weights, f"decoder.{last}")
        self._last = StreamConv.load(weights, f"decoder.{last + 1}.conv")
        self.states = self._pre_conv.states + self._transformer.states + self._wave_states()
        self.history_frames = ceil(self._history_samples() / SAMPLES_PER_FRAME)

    def decode(self, codes: Tensor, state: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """New frames of several streams, all of one length.

        codes: int64 [streams, frames, 16]; state: one tensor per entry of ``states``, each [streams, *shape].
        Returns samples float32 [streams, frames * 1920] in [-1, 1] and the streams' next state.
        """
        stream_state = StreamState(state)
        samples = self._to_samples(self._to_latents(codes, stream_state), stream_state)
        return samples, stream_state.next

    def prime(self, codes: Tensor, state: list[Tensor]) -> list[Tensor]:
        """The state after frames whose samples nobody wants (the reference of an in-context clone).

        codes: int64 [streams, frames, 16], at the beginning of the streams. Only the last ``history_frames``
        latents reach later samples, so the convolutions run on those alone.
        """
        stream_state = StreamState(state)
        latents = self._to_latents(codes, stream_state)
        self._to_samples(latents[..., -self.history_frames :], stream_state)
        return stream_state.next

    def _to_latents(self, codes: Tensor, state: StreamState) -> Tensor:
        """codes [streams, frames, 16] -> [streams, latent, frames]."""
        quantized = self._latents[codes + self._offsets].sum(2).transpose(1, 2)
        return self._transformer(self._pre_conv(quantized, state), state)

    def _to_samples(self, x: Tensor, state: StreamState) -> Tensor:
        for upsample, convnext in self._upsample:
            x = convnext(upsample(x, state), state)
        x = self._first(x, state)
        for block in self._blocks:
            x = block.upsample(block.snake(x), state)
            for unit in block.units:
                x = unit(x, state)
        return self._last(self._last_snake(x), state).squeeze(1).clamp_(-1, 1)

    def _wave_states(self) -> list[StateShape]:
        states = []
        for upsample, convnext in self._upsample:
            states += upsample.states + convnext.states
        states += self._first.states
        for block in self._blocks:
            states += block.upsample.states
            for unit in block.units:
                states += unit.states
        return states + self._last.states

    def _history_samples(self) -> int:
        """How many samples back a latent's influence reaches, beyond its own frame."""
        columns = SAMPLES_PER_FRAME
        reach = 0
        for upsample, convnext in self._upsample:
            reach += upsample.history * columns
            columns //= upsample.rate
            reach += convnext.history * columns
        reach += self._first.history * columns
        for block in self._blocks:
            reach += block.upsample.history * columns
            columns //= block.upsample.rate
            reach += sum(unit.history for unit in block.units) * columns
        return reach + self._last.history * columns


def _block(weights: Mapping[str, Tensor], name: str, rate: int) -> _Block:
    return _Block(
        SnakeBeta(weights, f"{name}.block.0"),
        Upsample.load(weights, f"{name}.block.1.conv", rate),
        [ResidualUnit(weights, f"{name}.block.{index + 2}", 3**index) for index in range(3)],
    )


def _latent_table(weights: Mapping[str, Tensor], architecture: DecoderArchitecture) -> Tensor:
    """All codebooks, already projected: [16 * codebook_size, codebook_dim]; a frame's latent is a sum of rows."""
    tables = []
    for book in range(architecture.quantizers):
        part, layer = ("rvq_first", 0) if book == 0 else ("rvq_rest", book - 1)
        codebook = f"quantizer.{part}.vq.layers.{layer}._codebook"
        usage = weights[f"{codebook}.cluster_usage"].clamp(min=1e-5)
        vectors = weights[f"{codebook}.embedding_sum"] / usage[:, None]
        tables.append(vectors @ weights[f"quantizer.{part}.output_proj.weight"].squeeze(-1).T)
    return torch.cat(tables)
