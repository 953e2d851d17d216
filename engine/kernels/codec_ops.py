"""The operations of ``engine.models.code2wav_gpu``, and their reference implementation in plain PyTorch.

Tensors are [streams, columns, channels], channels innermost. A layer's input begins with the columns that the layer
keeps of the stream. Each result is rounded once, to the dtype of the output tensor (``rounded``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.protocol.samples import FULL_SCALE, NAN_SAMPLE

Activation = Literal["none", "snake", "gelu"]


@dataclass(frozen=True)
class Product:
    """A causal convolution (with one tap: a linear layer) and the operations fused into it.

    matrix: [taps * in, out]. bias, scale: float32 [out]; the scale is applied after the bias and before a residual.
    frequency, gain: float32 [out], of SnakeBeta.
    """

    matrix: Tensor
    bias: Tensor
    taps: int = 1
    dilation: int = 1
    scale: Tensor | None = None
    activation: Activation = "none"
    frequency: Tensor | None = None
    gain: Tensor | None = None

    @property
    def inputs(self) -> int:
        """Input channels."""
        return self.matrix.shape[0] // self.taps

    @property
    def history(self) -> int:
        """Input columns needed before the column of the first output."""
        return (self.taps - 1) * self.dilation


@dataclass(frozen=True)
class Caches:
    """Keys and values of all streams, [rows, layers, heads, ring, head_dim]. positions: frames so far, int64 [rows]."""

    keys: Tensor
    values: Tensor
    positions: Tensor


def rounded(y: Tensor, dtype: torch.dtype) -> Tensor:
    """Return y in ``dtype``. In float16, clamp to the largest finite value instead of infinity."""
    most = torch.finfo(dtype).max
    return y.clamp(-most, most).to(dtype) if dtype == torch.float16 else y.to(dtype)


class Ops(Protocol):
    """The operations of Code2Wav on a GPU."""

    def sum_codebooks(self, codes: Tensor, table: Tensor, out: Tensor) -> None:
        """Sum codebook vectors: codes int64 [streams, frames, books], table [books * entries, width] -> out.

        out: [streams, frames, width].
        """

    def product(
        self,
        x: Tensor,
        product: Product,
        *,
        residual: Tensor | None = None,
        raw: Tensor | None = None,
        act: Tensor | None = None,
    ) -> None:
        """Map x [streams, history + n, in] to [streams, n, out].

        raw: receives the result before the activation. act: receives it after the activation.
        """

    def rms_norm(self, x: Tensor, gain: Tensor, eps: float) -> Tensor:
        """Return RMSNorm of x [streams, n, width]."""

    def swiglu(self, x: Tensor) -> Tensor:
        """Map x [streams, n, 2 width], gate then up, to silu(gate) * up, [streams, n, width]."""

    def attention(
        self, qkv: Tensor, caches: Caches, layer: int, rows: Tensor, frequencies: Tensor, window: int
    ) -> Tensor:
        """Map qkv [streams, n, 3, heads, head_dim] of the streams in ``rows`` to [streams, n, heads * head_dim].

        Also stores the new keys and values in the ring buffer.
        """

    def depthwise_norm(
        self, x: Tensor, weight: Tensor, bias: Tensor, norm: tuple[Tensor, Tensor], eps: float
    ) -> Tensor:
        """Depthwise convolution, then LayerNorm: x [streams, taps - 1 + n, width] -> [streams, n, width].

        weight: [taps, width].
        """

    def last_convolution(self, x: Tensor, weight: Tensor, bias: Tensor, samples: Tensor) -> None:
        """One-channel convolution: x [streams, taps - 1 + n, width], weight [taps, width], bias [1] -> samples.

        samples: [streams, n], float32 in [-1, 1], or int16 converted as in ``engine.protocol.samples.to_int16``.
        """

    def move_columns(self, columns: Tensor, work: Tensor, rows: Tensor, plan: Tensor, save: bool) -> None:
        """Copy state between ``columns`` [rows, elements] and ``work``: see ``codec_kernels.move_columns``."""


class TorchOps:
    """Reference implementation of ``Ops``."""

    def sum_codebooks(self, codes: Tensor, table: Tensor, out: Tensor) -> None:
        """See ``Ops.sum_codebooks``."""
        books = codes.shape[-1]
        offsets = torch.arange(books, device=codes.device) * (table.shape[0] // books)
        out.copy_(rounded(table[codes + offsets].float().sum(2), out.dtype))

    def product(
        self,
        x: Tensor,
        product: Product,
        *,
        residual: Tensor | None = None,
        raw: Tensor | None = None,
        act: Tensor | None = None,
    ) -> None:
        """See ``Ops.product``."""
        y = _convolve(x, product).float() + product.bias
        if product.scale is not None:
            y *= product.scale
        if residual is not None:
            y += residual
        if raw is not None:
            raw.copy_(rounded(y, raw.dtype))
        if act is not None:
            act.copy_(rounded(_activated(y, product), act.dtype))

    def rms_norm(self, x: Tensor, gain: Tensor, eps: float) -> Tensor:
        """See ``Ops.rms_norm``."""
        return rounded(F.rms_norm(x.float(), (x.shape[-1],), None, eps) * gain, x.dtype)

    def swiglu(self, x: Tensor) -> Tensor:
        """See ``Ops.swiglu``."""
        gate, up = x.float().chunk(2, -1)
        return rounded(F.silu(gate) * up, x.dtype)

    def attention(
        self, qkv: Tensor, caches: Caches, layer: int, rows: Tensor, frequencies: Tensor, window: int
    ) -> Tensor:
        """See ``Ops.attention``."""
        _, frames, _, _, width = qkv.shape
        keys, values = caches.keys[:, layer], caches.values[:, layer]
        ring = keys.shape[2]
        positions = caches.positions[rows][:, None] + torch.arange(frames, device=qkv.device)
        angles = (positions[..., None].float() * frequencies)[:, :, None]
        query, key, value = qkv.unbind(2)
        query = rounded(_rotated(query.float() * width**-0.5, angles), keys.dtype)
        slots = positions % ring
        keys[rows[:, None], :, slots] = rounded(_rotated(key.float(), angles), keys.dtype)
        values[rows[:, None], :, slots] = value
        last = positions[:, -1:]
        held = last - (last - torch.arange(ring, device=qkv.device)) % ring
        seen = (held[:, None] <= positions[..., None]) & (held[:, None] > positions[..., None] - window)
        seen = (seen & (held >= 0)[:, None])[:, None]
        scores = query.transpose(1, 2).float() @ keys[rows].transpose(-1, -2).float()
        weights = torch.softmax(scores.masked_fill(~seen, float("-inf")), -1)
        past = torch.where(seen.any(2)[..., None], values[rows].float(), 0)
        return rounded((weights @ past).transpose(1, 2).flatten(2), qkv.dtype)

    def depthwise_norm(
        self, x: Tensor, weight: Tensor, bias: Tensor, norm: tuple[Tensor, Tensor], eps: float
    ) -> Tensor:
        """See ``Ops.depthwise_norm``."""
        columns = x.transpose(1, 2).float()
        y = F.conv1d(columns, weight.T[:, None], bias, groups=x.shape[-1]).transpose(1, 2)
        return rounded(F.layer_norm(y, y.shape[-1:], *norm, eps=eps), x.dtype)

    def last_convolution(self, x: Tensor, weight: Tensor, bias: Tensor, samples: Tensor) -> None:
        """See ``Ops.last_convolution``."""
        y = F.conv1d(x.transpose(1, 2).float(), weight.T[None], bias).squeeze(1).clamp(-1, 1)
        if samples.dtype == torch.int16:
            y = torch.where(y.isnan(), NAN_SAMPLE, (y * FULL_SCALE).round())
        samples.copy_(y)

    def move_columns(self, columns: Tensor, work: Tensor, rows: Tensor, plan: Tensor, save: bool) -> None:
        """See ``Ops.move_columns``."""
        for offset, size, first, stream, tail in plan.tolist():
            for at, row in enumerate(rows.tolist()):
                begin = first + at * stream
                memory = columns[row, offset : offset + size]
                if save:
                    memory.copy_(work[begin + tail : begin + tail + size])
                else:
                    work[begin : begin + size] = memory


def _convolve(x: Tensor, product: Product) -> Tensor:
    """Map [streams, history + n, in] to [streams, n, out]. On a CPU, sum in float32 and do not round."""
    if x.device.type == "cpu":
        x, matrix = x.float(), product.matrix.float()
    else:
        matrix = product.matrix
    if product.taps == 1:
        return x @ matrix
    kernel = matrix.unflatten(0, (product.taps, -1)).permute(2, 1, 0)
    if x.device.type == "cpu":
        return F.conv1d(x.transpose(1, 2), kernel, dilation=product.dilation).transpose(1, 2)
    kernel = kernel.unsqueeze(2).contiguous(memory_format=torch.channels_last)
    y = F.conv2d(x.transpose(1, 2).unsqueeze(2), kernel, dilation=(1, product.dilation))
    return y.squeeze(2).transpose(1, 2)


def _activated(y: Tensor, product: Product) -> Tensor:
    if product.activation == "snake":
        assert product.frequency is not None and product.gain is not None
        return y + torch.sin(y * product.frequency).square() * product.gain
    return F.gelu(y) if product.activation == "gelu" else y


def _rotated(x: Tensor, angles: Tensor) -> Tensor:
    low, high = x.chunk(2, -1)
    return torch.cat((low * angles.cos() - high * angles.sin(), high * angles.cos() + low * angles.sin()), -1)
