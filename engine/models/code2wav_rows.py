"""Code2Wav as a GPU runs it: columns in rows, activations fused into products, every stream's memory on the device.

It is ``engine.models.code2wav.Code2WavModel`` in another layout. A stream's columns lie one after another, channels
innermost, in buffers that begin with what the layer remembers of the stream: nothing is transposed, joined or copied.
The products write what the next one reads. Keys and values stay where they are, in rings.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.kernels.codec_ops import Caches, Ops, Product
from engine.models.code2wav_row_weights import Block, RowWeights
from engine.request import MOST_CHUNK_FRAMES


class StreamMemory:
    """What is remembered of every stream, a row each, and one row more for streams that are not there."""

    def __init__(self, weights: RowWeights, rows: int) -> None:
        shape, device, dtype = weights.architecture.transformer, weights.device, weights.dtype
        ring = 1 << (weights.architecture.sliding_window - 2 + MOST_CHUNK_FRAMES).bit_length()
        size = (rows + 1, shape.layers, shape.heads, ring, shape.head_dim)
        self.spare = rows
        self.columns = torch.zeros(
            rows + 1, sum(each.history * each.width for each in weights.inputs()), dtype=dtype, device=device
        )
        self.caches = Caches(
            torch.zeros(size, dtype=dtype, device=device),
            torch.zeros(size, dtype=dtype, device=device),
            torch.zeros(rows + 1, dtype=torch.int64, device=device),
        )

    @property
    def bytes(self) -> int:
        """Of all rows."""
        return sum(each.nbytes for each in (self.columns, self.caches.keys, self.caches.values))

    def of(self, row: int) -> list[Tensor]:
        """All that is remembered of the stream in ``row``."""
        caches = self.caches
        return [self.columns[row], caches.keys[row], caches.values[row], caches.positions[row]]

    def clear(self, row: int) -> None:
        """A stream will begin in ``row``. Its keys and values need no clearing: positions say which there are."""
        self.columns[row].zero_()
        self.caches.positions[row].zero_()


class Workspace:
    """The buffers with a memory of a batch of ``streams`` with ``frames`` each, all in one tensor."""

    def __init__(self, weights: RowWeights, streams: int, frames: int, work: Tensor) -> None:
        self.work = work
        plan, buffers, offset, at = [], [], 0, 0
        for each in weights.inputs():
            columns = each.history + frames * each.columns
            size = each.history * each.width
            plan.append((offset, size, at, columns * each.width, (columns - each.history) * each.width))
            buffers.append(work[at : at + streams * columns * each.width].view(streams, columns, each.width))
            offset += size
            at += -(-streams * columns * each.width // 64) * 64
        self.plan = torch.tensor(plan, device=work.device)
        self._histories = [each.history for each in weights.inputs()]
        self.buffers = buffers

    @staticmethod
    def size(weights: RowWeights, streams: int, frames: int) -> int:
        """Elements."""
        sizes = [streams * (each.history + frames * each.columns) * each.width for each in weights.inputs()]
        return sum(-(-size // 64) * 64 for size in sizes)

    def fresh(self, index: int, rate: int = 1) -> Tensor:
        """Where buffer ``index``'s new columns go; rate: as rows of so many columns."""
        buffer = self.buffers[index]
        new = buffer[:, self._histories[index] :]
        streams, columns, width = new.shape
        return new.as_strided(
            (streams, columns // rate, width * rate), (buffer.stride(0), width * rate, 1), new.storage_offset()
        )


class RowDecoder:
    """Decode batches of streams whose memory is on the device."""

    def __init__(self, weights: RowWeights, ops: Ops) -> None:
        self._weights, self._ops = weights, ops

    def decode(self, codes: Tensor, rows: Tensor, memory: StreamMemory, space: Workspace, samples: Tensor) -> None:
        """codes int64 [streams, frames, 16] that come next in ``rows`` -> samples [streams, frames * 1920].

        samples: float32 or int16, see ``Ops.last_convolution``.
        Everything is on the device, and nothing waits: a CUDA graph can hold it.
        """
        self._ops.move_columns(memory.columns, space.work, rows, space.plan, save=False)
        self._upsample(self._latents(codes, rows, memory, space), space, samples)
        self._ops.move_columns(memory.columns, space.work, rows, space.plan, save=True)
        moved = torch.full_like(rows, codes.shape[1])
        memory.caches.positions.index_put_((rows,), memory.caches.positions[rows] + moved)

    def _latents(self, codes: Tensor, rows: Tensor, memory: StreamMemory, space: Workspace) -> Tensor:
        ops, weights = self._ops, self._weights
        shape, window = weights.architecture.transformer, weights.architecture.sliding_window
        ops.sum_codebooks(codes, weights.table, space.fresh(0))
        x = self._raw(space.buffers[0], weights.pre_conv)
        x = self._raw(x, weights.enter)
        for index, layer in enumerate(weights.layers):
            qkv = self._raw(ops.rms_norm(x, layer.norm, shape.eps), layer.qkv).unflatten(2, (3, shape.heads, -1))
            mixed = ops.attention(qkv, memory.caches, index, rows, weights.frequencies, window)
            x = self._raw(mixed, layer.out, residual=x)
            gated = ops.swiglu(self._raw(ops.rms_norm(x, layer.post_norm, shape.eps), layer.gate_up))
            x = self._raw(gated, layer.down, residual=x)
        return self._raw(ops.rms_norm(x, weights.norm, shape.eps), weights.leave)

    def _upsample(self, x: Tensor, space: Workspace, samples: Tensor) -> None:
        ops, weights = self._ops, self._weights
        at = 1
        for mixer in weights.mixers:
            ops.product(x, mixer.repeat, raw=space.fresh(at, mixer.rate))
            y = ops.depthwise_norm(space.buffers[at], mixer.depthwise, mixer.bias, mixer.norm, 1e-6)
            wide = y.new_empty((*y.shape[:2], mixer.widen.matrix.shape[1]))
            ops.product(y, mixer.widen, act=wide)
            to = space.fresh(at + 1) if mixer is weights.mixers[-1] else torch.empty_like(y)
            ops.product(wide, mixer.narrow, residual=space.fresh(at), raw=to)
            x, at = to, at + 1
        ops.product(space.buffers[at], weights.first, act=space.fresh(at + 1))
        at += 1
        for block in weights.blocks:
            at = self._block(block, space, at)
        ops.last_convolution(space.buffers[at], weights.last, weights.last_bias, samples)

    def _block(self, block: Block, space: Workspace, at: int) -> int:
        """From buffer ``at`` to the one whose number is returned."""
        ops = self._ops
        narrow = space.buffers[at]
        streams, columns = narrow.shape[0], narrow.shape[1] - block.up.history
        x = narrow.new_empty((streams, columns, block.up.matrix.shape[1]))
        ops.product(narrow, block.up, raw=x, act=space.fresh(at + 1, block.rate))
        x = x.view(streams, columns * block.rate, -1)
        for unit in block.units:
            at += 1
            y = torch.empty_like(x)
            ops.product(space.buffers[at], unit.wide, act=y)
            following = torch.empty_like(x) if unit is not block.units[-1] else None
            ops.product(y, unit.narrow, residual=x, raw=following, act=space.fresh(at + 1))
            x = x if following is None else following
        return at + 1

    def _raw(self, x: Tensor, product: Product, residual: Tensor | None = None) -> Tensor:
        """The product as it is."""
        y = x.new_empty((x.shape[0], x.shape[1] - product.history, product.matrix.shape[1]))
        self._ops.product(x, product, residual=residual, raw=y)
        return y
