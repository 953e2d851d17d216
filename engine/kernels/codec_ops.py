"""The operations of ``engine.models.code2wav_gpu``. Reference implementation: tests/support/torch_codec_ops.py.

Tensors are [streams, columns, channels], channels innermost. A layer's input begins with the columns that the layer
keeps of the stream. Each result is rounded once, to the dtype of the output tensor (``rounded``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

Activation = Literal["none", "snake", "gelu"]


@dataclass(frozen=True)
class Product:
    """A causal convolution (with one tap: a linear layer) and the operations fused into it.

    matrix: [taps * in, out]. bias, scale: float32 [out]; the scale is applied after the bias and before a residual.
    frequency, gain: float32 [out], of SnakeBeta. norm_eps: eps of an RMSNorm of the input (with one tap), or None. The
    matrix contains the norm's gain.
    """

    matrix: Tensor
    bias: Tensor
    taps: int = 1
    dilation: int = 1
    scale: Tensor | None = None
    activation: Activation = "none"
    frequency: Tensor | None = None
    gain: Tensor | None = None
    norm_eps: float | None = None

    @property
    def inputs(self) -> int:
        """Input channels."""
        return self.matrix.shape[0] // self.taps

    @property
    def history(self) -> int:
        """Input columns needed before the column of the first output."""
        return (self.taps - 1) * self.dilation


@dataclass(frozen=True, eq=False)
class ResidualUnit:
    """A residual unit: a convolution with seven taps, then one with a single tap."""

    wide: Product
    narrow: Product


@dataclass(frozen=True)
class Caches:
    """Keys and values of all streams, [rows, layers, heads, ring, head_dim]. positions: frames so far, int64 [rows]."""

    keys: Tensor
    values: Tensor
    positions: Tensor


def rounded(y: Tensor, dtype: torch.dtype) -> Tensor:
    """Return y in ``dtype``. In float16, clamp to the largest finite value instead of infinity."""
    limit = torch.finfo(dtype).max
    return y.clamp(-limit, limit).to(dtype) if dtype == torch.float16 else y.to(dtype)


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

    def residual_unit(
        self, x: Tensor, unit: ResidualUnit, *, residual: Tensor, raw: Tensor | None, act: Tensor
    ) -> None:
        """Map x [streams, history + n, channels] through both convolutions, and add the residual.

        residual: [streams, n, channels]. raw: receives the sum before the activation. act: receives it after.
        """
        y = residual.new_empty(residual.shape)
        self.product(x, unit.wide, act=y)
        self.product(y, unit.narrow, residual=residual, raw=raw, act=act)

    def swiglu(self, x: Tensor) -> Tensor:
        """Map x [streams, n, 2 width], gate then up, to silu(gate) * up, [streams, n, width]."""

    def rotations(self, positions: Tensor, rows: Tensor, frames: int, frequencies: Tensor) -> Tensor:
        """Return the rotary embedding of the next ``frames`` of the streams in ``rows``, for ``attention``.

        Cosines, then sines: float32 [streams, frames, 2, head_dim / 2].
        """

    def attention(
        self, qkv: Tensor, caches: Caches, layer: int, rows: Tensor, rotations: Tensor, window: int
    ) -> Tensor:
        """Map qkv [streams, n, 3, heads, head_dim] of the streams in ``rows`` to [streams, n, heads * head_dim].

        Also stores the new keys and values in the ring buffer.
        """

    def advance(self, positions: Tensor, rows: Tensor, frames: int) -> None:
        """Add ``frames`` to the positions of the streams in ``rows``. A row that occurs twice gets any value."""

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
