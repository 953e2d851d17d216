"""Code2Wav's weights as a GPU multiplies them: every convolution is a matrix, and what follows it is part of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.architecture import DecoderArchitecture
from engine.kernels.codec_ops import Product, rounded
from engine.models.code2wav import latent_table


@dataclass(frozen=True)
class Unit:
    """A residual unit: seven taps, then one."""

    wide: Product
    narrow: Product


@dataclass(frozen=True)
class Block:
    """An upsampling and its residual units. rate: columns made of one."""

    up: Product
    rate: int
    units: list[Unit]


@dataclass(frozen=True)
class Mixer:
    """A column doubled (``repeat``), then ConvNeXt."""

    repeat: Product
    rate: int
    depthwise: Tensor
    bias: Tensor
    norm: tuple[Tensor, Tensor]
    widen: Product
    narrow: Product


@dataclass(frozen=True)
class Layer:
    """A layer of the transformer."""

    norm: Tensor
    qkv: Product
    out: Product
    post_norm: Tensor
    gate_up: Product
    down: Product


@dataclass(frozen=True)
class Input:
    """A buffer that begins with a layer's memory: ``history`` columns of ``width`` before ``columns`` a frame."""

    history: int
    width: int
    columns: int


class RowWeights:
    """The decoder's weights, as products. dtype: of what is multiplied and of what is kept between layers."""

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        architecture: DecoderArchitecture,
        *,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        read = _Reader({name: tensor.to(device, torch.float32) for name, tensor in tensors.items()}, dtype)
        self.architecture, self.device, self.dtype = architecture, device, dtype
        self.table = rounded(latent_table(read.tensors, architecture), dtype)
        shape = architecture.transformer
        name = "pre_transformer"
        self.pre_conv = read.convolution("pre_conv.conv")
        self.enter = read.linear(f"{name}.input_proj")
        self.layers = [read.layer(f"{name}.layers.{index}") for index in range(shape.layers)]
        self.norm = read[f"{name}.norm.weight"]
        self.leave = read.linear(f"{name}.output_proj")
        exponents = torch.arange(0, shape.head_dim, 2, device=device, dtype=torch.int64).float()
        self.frequencies = 1.0 / shape.rope_theta ** (exponents / shape.head_dim)
        self.mixers = [read.mixer(f"upsample.{at}", rate) for at, rate in enumerate(architecture.upsampling_ratios)]
        first = read.convolution("decoder.0.conv")
        self.first = read.snaked(first, "decoder.1.block.0")
        rates = architecture.upsample_rates
        self.blocks = [read.block(at + 1, rate, last=at + 1 == len(rates)) for at, rate in enumerate(rates)]
        last = f"decoder.{len(rates) + 2}.conv"
        self.last = read[f"{last}.weight"][0].T.contiguous()
        self.last_bias = read[f"{last}.bias"]

    def inputs(self) -> list[Input]:
        """The buffers with a memory, in the order the layers run."""
        inputs = [Input(self.pre_conv.history, self.pre_conv.inputs, 1)]
        columns = 1
        for mixer in self.mixers:
            columns *= mixer.rate
            inputs.append(Input(len(mixer.depthwise) - 1, mixer.depthwise.shape[1], columns))
        inputs.append(Input(self.first.history, self.first.inputs, columns))
        for block in self.blocks:
            inputs.append(Input(block.up.history, block.up.inputs, columns))
            columns *= block.rate
            inputs += [Input(unit.wide.history, unit.wide.inputs, columns) for unit in block.units]
        return [*inputs, Input(len(self.last) - 1, self.last.shape[1], columns)]


class _Reader:
    """Tensors by name -> products."""

    def __init__(self, tensors: Mapping[str, Tensor], dtype: torch.dtype) -> None:
        self.tensors, self._dtype = tensors, dtype

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def product(self, matrix: Tensor, bias: Tensor | None, taps: int = 1, dilation: int = 1) -> Product:
        given = torch.zeros(matrix.shape[1], device=matrix.device) if bias is None else bias
        return Product(rounded(matrix, self._dtype).contiguous(), given.contiguous(), taps, dilation)

    def linear(self, *names: str) -> Product:
        weight = torch.cat([self[f"{name}.weight"] for name in names])
        return self.product(weight.T, self.tensors.get(f"{names[0]}.bias"))

    def convolution(self, name: str, dilation: int = 1) -> Product:
        weight = self[f"{name}.weight"]
        return self.product(weight.permute(2, 1, 0).flatten(0, 1), self[f"{name}.bias"], weight.shape[2], dilation)

    def transposed(self, name: str, rate: int) -> Product:
        """Stride ``rate``, a kernel of one or two strides: columns of the result are (rate, out)."""
        weight = self[f"{name}.weight"]
        taps = weight.shape[2] // rate
        parts = weight.unflatten(2, (taps, rate)).flip(2)
        return self.product(parts.permute(2, 0, 3, 1).flatten(2).flatten(0, 1), self[f"{name}.bias"].repeat(rate), taps)

    def snaked(self, product: Product, name: str, rate: int = 1) -> Product:
        frequency = self[f"{name}.alpha"].exp().repeat(rate)
        gain = (1.0 / (self[f"{name}.beta"].exp() + 1e-9)).repeat(rate)
        return replace(product, activation="snake", frequency=frequency, gain=gain)

    def layer(self, name: str) -> Layer:
        return Layer(
            self[f"{name}.input_layernorm.weight"],
            self.linear(*(f"{name}.self_attn.{part}_proj" for part in "qkv")),
            replace(self.linear(f"{name}.self_attn.o_proj"), scale=self[f"{name}.self_attn_layer_scale.scale"]),
            self[f"{name}.post_attention_layernorm.weight"],
            self.linear(f"{name}.mlp.gate_proj", f"{name}.mlp.up_proj"),
            replace(self.linear(f"{name}.mlp.down_proj"), scale=self[f"{name}.mlp_layer_scale.scale"]),
        )

    def mixer(self, name: str, rate: int) -> Mixer:
        return Mixer(
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
        after = f"decoder.{index + 1}" if last else f"decoder.{index + 1}.block.0"
        following = [f"{name}.3.act1", f"{name}.4.act1", after]
        units = []
        for unit, next_snake in enumerate(following):
            prefix = f"{name}.{unit + 2}"
            wide = self.snaked(self.convolution(f"{prefix}.conv1.conv", 3**unit), f"{prefix}.act2")
            units.append(Unit(wide, self.snaked(self.convolution(f"{prefix}.conv2.conv"), next_snake)))
        return Block(self.snaked(self.transposed(f"{name}.1.conv", rate), f"{name}.2.act1", rate), rate, units)
