"""Code2Wav's operations in plain PyTorch: the reference implementation that the Triton kernels are compared with."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import override

from engine.kernels.codec_ops import Caches, Ops, Product, rounded
from engine.protocol.samples import FULL_SCALE, NAN_SAMPLE


class TorchOps(Ops):
    """Reference implementation of ``Ops``."""

    @override
    def sum_codebooks(self, codes: Tensor, table: Tensor, out: Tensor) -> None:
        books = codes.shape[-1]
        offsets = torch.arange(books, device=codes.device) * (table.shape[0] // books)
        out.copy_(rounded(table[codes + offsets].float().sum(2), out.dtype))

    @override
    def product(
        self,
        x: Tensor,
        product: Product,
        *,
        residual: Tensor | None = None,
        raw: Tensor | None = None,
        act: Tensor | None = None,
    ) -> None:
        if product.norm_eps is not None:
            x = rounded(F.rms_norm(x.float(), x.shape[-1:], None, product.norm_eps), x.dtype)
        y = _convolve(x, product).float() + product.bias
        if product.scale is not None:
            y *= product.scale
        if residual is not None:
            y += residual
        if raw is not None:
            raw.copy_(rounded(y, raw.dtype))
        if act is not None:
            act.copy_(rounded(_activated(y, product), act.dtype))

    @override
    def swiglu(self, x: Tensor) -> Tensor:
        gate, up = x.float().chunk(2, -1)
        return rounded(F.silu(gate) * up, x.dtype)

    @override
    def rotations(self, positions: Tensor, rows: Tensor, frames: int, frequencies: Tensor) -> Tensor:
        new_positions = positions[rows][:, None] + torch.arange(frames, device=rows.device)
        angles = new_positions[..., None].float() * frequencies
        return torch.stack((angles.cos(), angles.sin()), 2)

    @override
    def attention(
        self, qkv: Tensor, caches: Caches, layer: int, rows: Tensor, rotations: Tensor, window: int
    ) -> Tensor:
        _, frames, _, _, width = qkv.shape
        keys, values = caches.keys[:, layer], caches.values[:, layer]
        ring = keys.shape[2]
        positions = caches.positions[rows][:, None] + torch.arange(frames, device=qkv.device)
        query, key, value = qkv.unbind(2)
        query = rounded(_rotated(query.float() * width**-0.5, rotations), keys.dtype)
        slots = positions % ring
        keys[rows[:, None], :, slots] = rounded(_rotated(key.float(), rotations), keys.dtype)
        values[rows[:, None], :, slots] = value
        last = positions[:, -1:]
        held = last - (last - torch.arange(ring, device=qkv.device)) % ring
        seen = (held[:, None] <= positions[..., None]) & (held[:, None] > positions[..., None] - window)
        seen = (seen & (held >= 0)[:, None])[:, None]
        scores = query.transpose(1, 2).float() @ keys[rows].transpose(-1, -2).float()
        weights = torch.softmax(scores.masked_fill(~seen, float("-inf")), -1)
        past = torch.where(seen.any(2)[..., None], values[rows].float(), 0)
        return rounded((weights @ past).transpose(1, 2).flatten(2), qkv.dtype)

    @override
    def advance(self, positions: Tensor, rows: Tensor, frames: int) -> None:
        positions[rows] += frames

    @override
    def depthwise_norm(
        self, x: Tensor, weight: Tensor, bias: Tensor, norm: tuple[Tensor, Tensor], eps: float
    ) -> Tensor:
        columns = x.transpose(1, 2).float()
        y = F.conv1d(columns, weight.T[:, None], bias, groups=x.shape[-1]).transpose(1, 2)
        return rounded(F.layer_norm(y, y.shape[-1:], *norm, eps=eps), x.dtype)

    @override
    def last_convolution(self, x: Tensor, weight: Tensor, bias: Tensor, samples: Tensor) -> None:
        y = F.conv1d(x.transpose(1, 2).float(), weight.T[None], bias).squeeze(1).clamp(-1, 1)
        if samples.dtype == torch.int16:
            y = torch.where(y.isnan(), NAN_SAMPLE, (y * FULL_SCALE).round())
        samples.copy_(y)

    @override
    def move_columns(self, columns: Tensor, work: Tensor, rows: Tensor, plan: Tensor, save: bool) -> None:
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


def _rotated(x: Tensor, rotations: Tensor) -> Tensor:
    low, high = x.chunk(2, -1)
    cosines, sines = rotations[:, :, None].unbind(3)
    return torch.cat((low * cosines - high * sines, high * cosines + low * sines), -1)
