"""Code2Wav for a GPU: channels innermost, activations fused into matrix products, stream state on the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.checkpoint.architecture import DecoderArchitecture
from engine.kernels.codec_ops import Caches, Ops, Product, ResidualUnit, rounded
from engine.models.code2wav import latent_table
from engine.protocol.request import MAX_CHUNK_FRAMES


@dataclass(frozen=True)
class Block:
    """An upsampling convolution and its residual units. rate: output columns per input column."""

    up: Product
    rate: int
    units: list[ResidualUnit]


@dataclass(frozen=True)
class UpsampleConvNeXt:
    """An upsampling of each column by itself (``repeat``), then ConvNeXt. rate: output columns per input column."""

    repeat: Product
    rate: int
    depthwise: Tensor
    bias: Tensor
    norm: tuple[Tensor, Tensor]
    widen: Product
    narrow: Product


@dataclass(frozen=True)
class Layer:
    """One transformer layer."""

    qkv: Product
    out: Product
    gate_up: Product
    down: Product


@dataclass(frozen=True)
class InputBuffer:
    """Size of a layer's input buffer: ``history`` remembered columns, then ``columns`` per frame, ``width`` wide."""

    history: int
    width: int
    columns: int


class RowWeights:
    """The decoder's weights, as products. dtype: of matrix operands and of values stored between layers."""

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        architecture: DecoderArchitecture,
        *,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        reader = _WeightReader({name: tensor.to(device, torch.float32) for name, tensor in tensors.items()}, dtype)
        self.architecture, self.device, self.dtype = architecture, device, dtype
        self.table = rounded(latent_table(reader.tensors, architecture), dtype)
        shape = architecture.transformer
        name = "pre_transformer"
        self.pre_conv = reader.convolution("pre_conv.conv")
        self.input_proj = reader.linear(f"{name}.input_proj")
        self.layers = [reader.layer(f"{name}.layers.{index}", shape.eps) for index in range(shape.layers)]
        self.output_proj = reader.normed_linear(f"{name}.norm", shape.eps, f"{name}.output_proj")
        exponents = torch.arange(0, shape.head_dim, 2, device=device, dtype=torch.int64).float()
        self.frequencies = 1.0 / shape.rope_theta ** (exponents / shape.head_dim)
        ratios = architecture.upsampling_ratios
        self.upsamplers = [reader.upsampler(f"upsample.{index}", rate) for index, rate in enumerate(ratios)]
        first = reader.convolution("decoder.0.conv")
        self.first = reader.with_snake(first, "decoder.1.block.0")
        rates = architecture.upsample_rates
        self.blocks = [reader.block(at + 1, rate, last=at + 1 == len(rates)) for at, rate in enumerate(rates)]
        last = f"decoder.{len(rates) + 2}.conv"
        self.last = reader[f"{last}.weight"][0].T.contiguous()
        self.last_bias = reader[f"{last}.bias"]

    def inputs(self) -> list[InputBuffer]:
        """Return the input buffers of the layers with state, in the order the layers run."""
        inputs = [InputBuffer(self.pre_conv.history, self.pre_conv.inputs, 1)]
        columns = 1
        for upsampler in self.upsamplers:
            columns *= upsampler.rate
            inputs.append(InputBuffer(len(upsampler.depthwise) - 1, upsampler.depthwise.shape[1], columns))
        inputs.append(InputBuffer(self.first.history, self.first.inputs, columns))
        for block in self.blocks:
            inputs.append(InputBuffer(block.up.history, block.up.inputs, columns))
            columns *= block.rate
            inputs += [InputBuffer(unit.wide.history, unit.wide.inputs, columns) for unit in block.units]
        return [*inputs, InputBuffer(len(self.last) - 1, self.last.shape[1], columns)]


class _WeightReader:
    """Builds products from tensors by name."""

    def __init__(self, tensors: Mapping[str, Tensor], dtype: torch.dtype) -> None:
        self.tensors, self._dtype = tensors, dtype

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def product(self, matrix: Tensor, bias: Tensor | None, taps: int = 1, dilation: int = 1) -> Product:
        bias = torch.zeros(matrix.shape[1], device=matrix.device) if bias is None else bias
        return Product(rounded(matrix, self._dtype).contiguous(), bias.contiguous(), taps, dilation)

    def linear(self, *names: str) -> Product:
        weight = torch.cat([self[f"{name}.weight"] for name in names])
        return self.product(weight.T, self.tensors.get(f"{names[0]}.bias"))

    def normed_linear(self, norm: str, eps: float, *names: str) -> Product:
        """Return an RMSNorm and the linear layers ``names`` as one product."""
        weight = torch.cat([self[f"{name}.weight"] for name in names]) * self[f"{norm}.weight"]
        return replace(self.product(weight.T, self.tensors.get(f"{names[0]}.bias")), norm_eps=eps)

    def convolution(self, name: str, dilation: int = 1) -> Product:
        weight = self[f"{name}.weight"]
        return self.product(weight.permute(2, 1, 0).flatten(0, 1), self[f"{name}.bias"], weight.shape[2], dilation)

    def transposed(self, name: str, rate: int) -> Product:
        """Convert a transposed convolution with stride ``rate`` and a kernel one or two strides long.

        An output row of the product has the order (rate, out).
        """
        weight = self[f"{name}.weight"]
        taps = weight.shape[2] // rate
        parts = weight.unflatten(2, (taps, rate)).flip(2)
        return self.product(parts.permute(2, 0, 3, 1).flatten(2).flatten(0, 1), self[f"{name}.bias"].repeat(rate), taps)

    def with_snake(self, product: Product, name: str, rate: int = 1) -> Product:
        frequency = self[f"{name}.alpha"].exp().repeat(rate)
        gain = (1.0 / (self[f"{name}.beta"].exp() + 1e-9)).repeat(rate)
        return replace(product, activation="snake", frequency=frequency, gain=gain)

    def layer(self, name: str, eps: float) -> Layer:
        return Layer(
            self.normed_linear(f"{name}.input_layernorm", eps, *(f"{name}.self_attn.{part}_proj" for part in "qkv")),
            replace(self.linear(f"{name}.self_attn.o_proj"), scale=self[f"{name}.self_attn_layer_scale.scale"]),
            self.normed_linear(f"{name}.post_attention_layernorm", eps, f"{name}.mlp.gate_proj", f"{name}.mlp.up_proj"),
            replace(self.linear(f"{name}.mlp.down_proj"), scale=self[f"{name}.mlp_layer_scale.scale"]),
        )

    def upsampler(self, name: str, rate: int) -> UpsampleConvNeXt:
        return UpsampleConvNeXt(
            self.transposed(f"{name}.0.conv", rate),
            rate,
            self[f"{name}.1.dwconv.conv.weight"].squeeze(1).T.contiguous(),
            self[f"{name}.1.dwconv.conv.bias"],
            (self[f"{name}.1.norm.weight"], self[f"{name}.1.norm.bias"]),
            replace(self.linear(f"{name}.1.pwconv1"), activation="gelu"),
            replace(self.linear(f"{name}.1.pwconv2"), scale=self[f"{name}.1.gamma"]),
        )

    def block(self, index: int, rate: int, *, last: bool) -> Block:
        name = f"decoder.{index}.block"
        next_name = f"decoder.{index + 1}" if last else f"decoder.{index + 1}.block.0"
        next_snakes = [f"{name}.3.act1", f"{name}.4.act1", next_name]
        units = []
        for unit, next_snake in enumerate(next_snakes):
            prefix = f"{name}.{unit + 2}"
            wide = self.with_snake(self.convolution(f"{prefix}.conv1.conv", 3**unit), f"{prefix}.act2")
            units.append(ResidualUnit(wide, self.with_snake(self.convolution(f"{prefix}.conv2.conv"), next_snake)))
        return Block(self.with_snake(self.transposed(f"{name}.1.conv", rate), f"{name}.2.act1", rate), rate, units)


class StreamMemory:
    """State of all streams on the device, one row each, plus a spare row for padding."""

    def __init__(self, weights: RowWeights, rows: int) -> None:
        shape, device, dtype = weights.architecture.transformer, weights.device, weights.dtype
        ring = 1 << (weights.architecture.sliding_window - 2 + MAX_CHUNK_FRAMES).bit_length()
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
        """Size of all rows, in bytes."""
        return sum(each.nbytes for each in (self.columns, self.caches.keys, self.caches.values))

    def of(self, row: int) -> list[Tensor]:
        """Return the state of the stream in ``row``, as views."""
        caches = self.caches
        return [self.columns[row], caches.keys[row], caches.values[row], caches.positions[row]]

    def clear(self, row: int) -> None:
        """Reset ``row`` for a new stream. Keys and values stay, because positions tell which of them are valid."""
        self.columns[row].zero_()
        self.caches.positions[row].zero_()


class Workspace:
    """The input buffers of the layers with state, for a batch of ``streams`` with ``frames`` each, in one tensor."""

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
        """Return the number of elements that the batch needs."""
        sizes = [streams * (each.history + frames * each.columns) * each.width for each in weights.inputs()]
        return sum(-(-size // 64) * 64 for size in sizes)

    def new_columns(self, index: int, rate: int = 1) -> Tensor:
        """Return a view of the new columns of buffer ``index``. rate: columns merged into one row of the view."""
        buffer = self.buffers[index]
        new = buffer[:, self._histories[index] :]
        streams, columns, width = new.shape
        return new.as_strided(
            (streams, columns // rate, width * rate), (buffer.stride(0), width * rate, 1), new.storage_offset()
        )


class RowDecoder:
    """Decodes batches of streams whose state is on the device."""

    def __init__(self, weights: RowWeights, ops: Ops) -> None:
        self._weights, self._ops = weights, ops

    def decode(self, codes: Tensor, rows: Tensor, memory: StreamMemory, workspace: Workspace, samples: Tensor) -> None:
        """Decode the next frames of ``rows``: codes, int64 [streams, frames, 16], to samples [streams, frames * 1920].

        samples: float32 or int16, see ``Ops.last_convolution``. All tensors are on the device and nothing synchronizes
        with it, so a CUDA graph can capture the call.
        """
        self._ops.move_columns(memory.columns, workspace.work, rows, workspace.plan, save=False)
        self._upsample(self._latents(codes, rows, memory, workspace), workspace, samples)
        self._ops.move_columns(memory.columns, workspace.work, rows, workspace.plan, save=True)
        self._ops.advance(memory.caches.positions, rows, codes.shape[1])

    def _latents(self, codes: Tensor, rows: Tensor, memory: StreamMemory, workspace: Workspace) -> Tensor:
        ops, weights = self._ops, self._weights
        shape, window = weights.architecture.transformer, weights.architecture.sliding_window
        ops.sum_codebooks(codes, weights.table, workspace.new_columns(0))
        x = self._product(workspace.buffers[0], weights.pre_conv)
        x = self._product(x, weights.input_proj)
        rotations = ops.rotations(memory.caches.positions, rows, codes.shape[1], weights.frequencies)
        for index, layer in enumerate(weights.layers):
            qkv = self._product(x, layer.qkv).unflatten(2, (3, shape.heads, -1))
            mixed = ops.attention(qkv, memory.caches, index, rows, rotations, window)
            x = self._product(mixed, layer.out, residual=x)
            gated = ops.swiglu(self._product(x, layer.gate_up))
            x = self._product(gated, layer.down, residual=x)
        return self._product(x, weights.output_proj)

    def _upsample(self, x: Tensor, workspace: Workspace, samples: Tensor) -> None:
        ops, weights = self._ops, self._weights
        at = 1
        for upsampler in weights.upsamplers:
            ops.product(x, upsampler.repeat, raw=workspace.new_columns(at, upsampler.rate))
            y = ops.depthwise_norm(workspace.buffers[at], upsampler.depthwise, upsampler.bias, upsampler.norm, 1e-6)
            wide = y.new_empty((*y.shape[:2], upsampler.widen.matrix.shape[1]))
            ops.product(y, upsampler.widen, act=wide)
            output = workspace.new_columns(at + 1) if upsampler is weights.upsamplers[-1] else y.new_empty(y.shape)
            ops.product(wide, upsampler.narrow, residual=workspace.new_columns(at), raw=output)
            x, at = output, at + 1
        ops.product(workspace.buffers[at], weights.first, act=workspace.new_columns(at + 1))
        at += 1
        for block in weights.blocks:
            at = self._block(block, workspace, at)
        ops.last_convolution(workspace.buffers[at], weights.last, weights.last_bias, samples)

    def _block(self, block: Block, workspace: Workspace, at: int) -> int:
        """Run a block on buffer ``at``. Return the index of the buffer that holds its result."""
        ops = self._ops
        narrow = workspace.buffers[at]
        streams, columns = narrow.shape[0], narrow.shape[1] - block.up.history
        x = narrow.new_empty((streams, columns, block.up.matrix.shape[1]))
        ops.product(narrow, block.up, raw=x, act=workspace.new_columns(at + 1, block.rate))
        x = x.view(streams, columns * block.rate, -1)
        for unit in block.units:
            at += 1
            next_x = x.new_empty(x.shape) if unit is not block.units[-1] else None
            ops.residual_unit(workspace.buffers[at], unit, residual=x, raw=next_x, act=workspace.new_columns(at + 1))
            x = x if next_x is None else next_x
        return at + 1

    def _product(self, x: Tensor, product: Product, residual: Tensor | None = None) -> Tensor:
        """Return the product without an activation."""
        y = x.new_empty((x.shape[0], x.shape[1] - product.history, product.matrix.shape[1]))
        self._ops.product(x, product, residual=residual, raw=y)
        return y
