"""Code2Wav: maps codec frames to samples. The result does not depend on the chunk sizes (SPEC 9)."""

from __future__ import annotations

from math import ceil, prod

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.checkpoint.architecture import DecoderArchitecture, Transformer
from engine.checkpoint.tensors import TensorSource
from engine.kernels.linear import Linear
from engine.models.code2wav_blocks import (
    ConvNeXt,
    Repeat,
    ResidualUnit,
    SnakeBeta,
    Stage,
    StateShape,
    StreamConv,
    StreamState,
    Upsample,
    make_linear,
)
from engine.models.qwen3 import RMSNorm
from engine.models.weights import WeightReader, Weights, optional
from engine.protocol.request import SAMPLES_PER_FRAME


class CodecTransformer:
    """The decoder's transformer: input projection, layers, final norm, output projection.

    State per stream: the number of frames so far, and the rotated keys and the values of the last window - 1 frames.
    """

    def __init__(
        self,
        weights: WeightReader,
        architecture: DecoderArchitecture,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        shape = architecture.transformer
        name = "pre_transformer"
        self._window = architecture.sliding_window
        self._input = _linear(weights, f"{name}.input_proj", dtype)
        self._layers = [
            _Layer(weights, f"{name}.layers.{index}", shape, self._window, dtype) for index in range(shape.layers)
        ]
        self._norm = RMSNorm(weights[f"{name}.norm.weight"], shape.eps)
        self._output = _linear(weights, f"{name}.output_proj", dtype)
        exponents = torch.arange(0, shape.head_dim, 2, device=device, dtype=torch.int64).float()
        self._frequencies = 1.0 / shape.rope_theta ** (exponents / shape.head_dim)
        self._keys = torch.arange(self._window, device=device)
        history_shape = (shape.heads, self._window - 1, shape.head_dim)
        self.states = [StateShape((), torch.int64)] + [StateShape(history_shape)] * (2 * shape.layers)

    def __call__(self, x: Tensor, state: StreamState) -> Tensor:
        """Map [streams, n, latent] to the same shape."""
        positions = state.advance(x.shape[1])[:, None] + torch.arange(x.shape[1], device=x.device)
        rotation = self._rotation(positions)
        mask = self._mask(positions)
        x = self._input(x)
        for layer in self._layers:
            x = layer(x, rotation, mask, state)
        return self._output(self._norm(x))

    def _rotation(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cos and sin [streams, 1, n, head_dim]. Positions are unbounded, so there is no table."""
        angles = positions[:, None, :, None].float() * self._frequencies
        return torch.cat((angles.cos(), angles.cos()), -1), torch.cat((-angles.sin(), angles.sin()), -1)

    def _mask(self, positions: Tensor) -> Tensor:
        """Return a mask [streams, 1, n, 1, window]: -inf where a window extends before the stream's first frame."""
        outside = self._keys < self._window - 1 - positions[..., None]
        zeros = torch.zeros(outside.shape, device=positions.device)
        return zeros.masked_fill_(outside, float("-inf"))[:, None, :, None]


class _Layer:
    def __init__(self, weights: WeightReader, name: str, shape: Transformer, window: int, dtype: torch.dtype) -> None:
        self._heads, self._window = shape.heads, window
        self._half = shape.head_dim // 2
        self._scale = shape.head_dim**-0.5
        self._input_norm = RMSNorm(weights[f"{name}.input_layernorm.weight"], shape.eps)
        self._post_norm = RMSNorm(weights[f"{name}.post_attention_layernorm.weight"], shape.eps)
        self._qkv = _fused(weights, [f"{name}.self_attn.{part}_proj" for part in "qkv"], dtype)
        self._out = _linear(weights, f"{name}.self_attn.o_proj", dtype)
        self._gate_up = _fused(weights, [f"{name}.mlp.gate_proj", f"{name}.mlp.up_proj"], dtype)
        self._down = _linear(weights, f"{name}.mlp.down_proj", dtype)
        self._attention_scale = weights[f"{name}.self_attn_layer_scale.scale"]
        self._mlp_scale = weights[f"{name}.mlp_layer_scale.scale"]

    def __call__(self, x: Tensor, rotation: tuple[Tensor, Tensor], mask: Tensor, state: StreamState) -> Tensor:
        """Map [streams, n, hidden] to the same shape."""
        mixed = self._attend(self._input_norm(x), rotation, mask, state)
        x = torch.addcmul(x, self._out(mixed), self._attention_scale)
        gate, up = self._gate_up(self._post_norm(x)).chunk(2, -1)
        return torch.addcmul(x, self._down(F.silu(gate) * up), self._mlp_scale)

    def _attend(self, x: Tensor, rotation: tuple[Tensor, Tensor], mask: Tensor, state: StreamState) -> Tensor:
        """Attend from each query to its own window of exactly ``window`` keys, so that chunk size has no effect.

        The windows are copied to contiguous memory, because a product's summation order depends on the strides of its
        operands.
        """
        query, key, value = self._qkv(x).unflatten(2, (3, self._heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        query, key = self._rotate(query, rotation), self._rotate(key, rotation)
        keys = state.extend(key, -2).unfold(-2, self._window, 1).contiguous()
        values = state.extend(value, -2).unfold(-2, self._window, 1).transpose(-1, -2).contiguous()
        scores = torch.matmul(query.unsqueeze(-2) * self._scale, keys).add_(mask)
        mixed = torch.matmul(torch.softmax(scores, -1), values).squeeze(-2)
        return mixed.transpose(1, 2).flatten(2)

    def _rotate(self, x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
        return torch.addcmul(x * rotation[0], x.roll(self._half, -1), rotation[1])


def _linear(weights: WeightReader, name: str, dtype: torch.dtype) -> Linear:
    return make_linear(weights[f"{name}.weight"], optional(weights, f"{name}.bias"), dtype)


def _fused(weights: WeightReader, names: list[str], dtype: torch.dtype) -> Linear:
    return make_linear(torch.cat([weights[f"{name}.weight"] for name in names]), None, dtype)


class Code2WavModel:
    """The codec's decoder.

    tensors: from speech_tokenizer/model.safetensors, without their ``decoder.`` prefix. release: remove each tensor
    from ``tensors`` when it has been converted. dtype: of the operands of the wide convolutions, which are most of the
    work: see ``Conv1d``, and for int16 ``CompiledConvolutions``. With bfloat16 and int16, the matrices are float16.
    All else is float32, except that int16 includes the last convolution.
    """

    def __init__(
        self,
        tensors: TensorSource,
        architecture: DecoderArchitecture,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        release: bool = False,
    ) -> None:
        weights = Weights(tensors, device, torch.float32, release=release)
        self.architecture, self.device, self.dtype = architecture, device, dtype
        self._stages = _stages(weights, architecture, dtype)
        self._latents = latent_table(weights, architecture)
        self._offsets = torch.arange(architecture.quantizers, device=device) * architecture.codebook_size
        self._pre_conv = StreamConv.load(weights, "pre_conv.conv", columns=1)
        self._transformer = CodecTransformer(weights, architecture, device, dtype)
        self.states = [*self._pre_conv.states, *self._transformer.states]
        self.states += [state for stage in self._stages for state in stage.states]
        self.history_frames = ceil(_receptive_field(self._stages) / SAMPLES_PER_FRAME)

    def decode(self, codes: Tensor, state: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Decode the next frames of several streams, the same number for each.

        codes: int64 [streams, frames, 16]. state: one tensor per entry of ``states``, each [streams, *shape].
        Return samples, float32 [streams, frames * 1920] in [-1, 1], and the streams' next state.
        """
        stream_state = StreamState(state)
        samples = self._to_samples(self._to_latents(codes, stream_state), stream_state)
        return samples, stream_state.next

    def prefill(self, codes: Tensor, state: list[Tensor]) -> list[Tensor]:
        """Return the state after frames whose samples are not needed (the reference of an in-context clone).

        codes: int64 [streams, frames, 16], the first frames of the streams. Only the last ``history_frames`` latents
        influence later samples, so the convolutions run only on those.
        """
        stream_state = StreamState(state)
        latents = self._to_latents(codes, stream_state)
        self._to_samples(latents[:, -self.history_frames :], stream_state)
        return stream_state.next

    def _to_latents(self, codes: Tensor, state: StreamState) -> Tensor:
        """Map codes [streams, frames, 16] to latents [streams, frames, latent]."""
        quantized = self._latents[codes + self._offsets].sum(2)
        return self._transformer(self._pre_conv(quantized, state), state)

    def _to_samples(self, x: Tensor, state: StreamState) -> Tensor:
        for stage in self._stages:
            x = stage(x, state)
        return x.squeeze(2).clamp_(-1, 1)


def _stages(weights: WeightReader, architecture: DecoderArchitecture, dtype: torch.dtype) -> list[Stage]:
    """Return the stages that map latents, 1 column per frame, to samples, 1920 columns per frame.

    The depthwise convolutions are always float32, and so is the last one, which is narrow, except with int16.
    """
    decoder = _decoder_stages(weights, architecture, dtype)  # the first and most tensors of the file
    stages: list[Stage] = []
    columns = 1
    for index, rate in enumerate(architecture.upsampling_ratios):
        stages.append(Repeat(weights, f"upsample.{index}.0.conv", rate=rate, dtype=dtype))
        columns *= rate
        stages.append(ConvNeXt(weights, f"upsample.{index}.1", columns=columns, dtype=dtype))
    return stages + decoder


def _decoder_stages(weights: WeightReader, architecture: DecoderArchitecture, dtype: torch.dtype) -> list[Stage]:
    """Return the stages of ``decoder.``, which follow those of ``upsample.``."""
    if dtype == torch.int16:
        from engine.models.compiled_convolutions import CompiledConvolutions, decoder_convolutions

        return [CompiledConvolutions(decoder_convolutions(weights, architecture), torch.get_num_threads())]
    columns = prod(architecture.upsampling_ratios)
    stages: list[Stage] = [StreamConv.load(weights, "decoder.0.conv", columns=columns, dtype=dtype)]
    for index, rate in enumerate(architecture.upsample_rates):
        block = f"decoder.{index + 1}.block"
        snake = SnakeBeta(weights, f"{block}.0")
        stages.append(Upsample(weights, f"{block}.1.conv", rate=rate, columns=columns, dtype=dtype, activation=snake))
        columns *= rate
        for unit in range(3):
            name = f"{block}.{unit + 2}"
            stages.append(ResidualUnit(weights, name, dilation=3**unit, columns=columns, dtype=dtype))
    last = len(architecture.upsample_rates) + 1
    snake = SnakeBeta(weights, f"decoder.{last}")
    stages.append(StreamConv.load(weights, f"decoder.{last + 1}.conv", columns=columns, activation=snake))
    return stages


def _receptive_field(stages: list[Stage]) -> int:
    """Return how many samples after its own frame a latent influences (SPEC 9.2)."""
    samples, samples_per_column = 0, SAMPLES_PER_FRAME
    for stage in stages:
        samples += stage.history * samples_per_column
        samples_per_column //= stage.rate
    return samples


def latent_table(weights: WeightReader, architecture: DecoderArchitecture) -> Tensor:
    """Return all codebooks, projected: [16 * codebook_size, codebook_dim]. A frame's latent is a sum of rows."""
    parts = ("rvq_first", "rvq_rest")
    projections = {part: weights[f"quantizer.{part}.output_proj.weight"].squeeze(-1).T for part in parts}
    tables = []
    for book in range(architecture.quantizers):
        part, layer = ("rvq_first", 0) if book == 0 else ("rvq_rest", book - 1)
        codebook = f"quantizer.{part}.vq.layers.{layer}._codebook"
        usage = weights[f"{codebook}.cluster_usage"].clamp(min=1e-5)
        vectors = weights[f"{codebook}.embedding_sum"] / usage[:, None]
        tables.append(vectors @ projections[part])
    return torch.cat(tables)
