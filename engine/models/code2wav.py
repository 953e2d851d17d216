"""Code2Wav: codec frames to samples, exactly, however the frames are cut into chunks (SPEC 9).

The decoder is causal, so all it must remember of a stream is the last few columns that each layer saw (SPEC 9.2).
Decoding new frames with that state gives the samples of the whole utterance, bit for bit on a CPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

import torch
from torch import Tensor

from engine.architecture import DecoderArchitecture
from engine.models.code2wav_blocks import ConvNeXt, Repeat, ResidualUnit, SnakeBeta, Stage, StreamConv, Upsample
from engine.models.code2wav_transformer import CodecTransformer
from engine.models.stream_state import StreamState
from engine.request import SAMPLES_PER_FRAME


class Code2WavModel:
    """The codec's decoder. tensors: of speech_tokenizer/model.safetensors, without their ``decoder.`` prefix."""

    def __init__(
        self, tensors: Mapping[str, Tensor], architecture: DecoderArchitecture, *, device: torch.device
    ) -> None:
        weights = {name: tensor.to(device, torch.float32) for name, tensor in tensors.items()}
        self.architecture, self.device = architecture, device
        self._latents = latent_table(weights, architecture)
        self._offsets = torch.arange(architecture.quantizers, device=device) * architecture.codebook_size
        self._pre_conv = StreamConv.load(weights, "pre_conv.conv", columns=1)
        self._transformer = CodecTransformer(weights, architecture, device)
        self._stages = _stages(weights, architecture)
        self.states = [*self._pre_conv.states, *self._transformer.states]
        self.states += [state for stage in self._stages for state in stage.states]
        self.history_frames = ceil(_reach(self._stages) / SAMPLES_PER_FRAME)

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
        return self._transformer(self._pre_conv(quantized, state).transpose(1, 2), state).transpose(1, 2)

    def _to_samples(self, x: Tensor, state: StreamState) -> Tensor:
        for stage in self._stages:
            x = stage(x, state)
        return x.squeeze(1).clamp_(-1, 1)


def _stages(weights: Mapping[str, Tensor], architecture: DecoderArchitecture) -> list[Stage]:
    """What turns latents, one column a frame, into samples, 1920 columns a frame."""
    stages: list[Stage] = []
    columns = 1
    for index, rate in enumerate(architecture.upsampling_ratios):
        stages.append(Repeat(weights, f"upsample.{index}.0.conv", rate=rate))
        columns *= rate
        stages.append(ConvNeXt(weights, f"upsample.{index}.1", columns=columns))
    stages.append(StreamConv.load(weights, "decoder.0.conv", columns=columns))
    for index, rate in enumerate(architecture.upsample_rates):
        block = f"decoder.{index + 1}.block"
        stages.append(SnakeBeta(weights, f"{block}.0"))
        stages.append(Upsample(weights, f"{block}.1.conv", rate=rate, columns=columns))
        columns *= rate
        for unit in range(3):
            stages.append(ResidualUnit(weights, f"{block}.{unit + 2}", dilation=3**unit, columns=columns))
    last = len(architecture.upsample_rates) + 1
    stages.append(SnakeBeta(weights, f"decoder.{last}"))
    stages.append(StreamConv.load(weights, f"decoder.{last + 1}.conv", columns=columns))
    return stages


def _reach(stages: list[Stage]) -> int:
    """How many samples a latent's influence reaches beyond its own frame (SPEC 9.2)."""
    reach, samples_a_column = 0, SAMPLES_PER_FRAME
    for stage in stages:
        reach += stage.history * samples_a_column
        samples_a_column //= stage.rate
    return reach


def latent_table(weights: Mapping[str, Tensor], architecture: DecoderArchitecture) -> Tensor:
    """All codebooks, already projected: [16 * codebook_size, codebook_dim]; a frame's latent is a sum of rows."""
    tables = []
    for book in range(architecture.quantizers):
        part, layer = ("rvq_first", 0) if book == 0 else ("rvq_rest", book - 1)
        codebook = f"quantizer.{part}.vq.layers.{layer}._codebook"
        usage = weights[f"{codebook}.cluster_usage"].clamp(min=1e-5)
        vectors = weights[f"{codebook}.embedding_sum"] / usage[:, None]
        tables.append(vectors @ weights[f"quantizer.{part}.output_proj.weight"].squeeze(-1).T)
    return torch.cat(tables)
