"""Random weights with which every branch of every model affects the output.

No tensor is left near zero, at one or at a usual initial value. So a test detects a model that skips a layer scale, the
weight of a norm or a bias.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

import torch
from safetensors.torch import save_file

from engine.checkpoint.layout import Shapes
from tests.support.random_checkpoint.normal import randn

_SEED = 20260122
_EOS_GAIN = 1.5
"""Multiplies the EOS row of the codec head, so that utterances end."""
_LAST_CONV_GAIN = 0.1
"""Scales Code2Wav's last convolution, so that samples stay within [-1, 1]."""
_CPU = torch.device("cpu")
_LOUDER = ("res2net_block", "tdnn", "mfa", "encoder.downsample")


def write_weights(
    file: Path,
    shapes: Shapes,
    tag: str,
    dtype: torch.dtype,
    *,
    eos: int = -1,
    eos_gain: float = _EOS_GAIN,
    last_conv: str = "",
    device: torch.device = _CPU,
) -> None:
    """Write a safetensors file of random tensors.

    tag: part of the random seed, so that files differ. eos: the EOS row of the codec head. eos_gain: factor for that
    row. last_conv: the name of Code2Wav's last convolution. device: where the random numbers are generated; each type
    of device gives different values.
    """
    tensors = {}
    for name, shape in shapes.items():
        tensor = _draw(name, shape, _generator(tag, name, device), last_conv)
        if name.endswith("codec_head.weight"):
            tensor[eos] *= eos_gain
        tensors[name] = tensor.to("cpu", dtype).contiguous()
    save_file(tensors, file, metadata={"format": "pt"})


def _generator(tag: str, name: str, device: torch.device) -> torch.Generator:
    """Return a generator for one tensor, so that the values do not depend on the order of the names."""
    digest = hashlib.sha256(f"{_SEED}|{tag}|{name}".encode()).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:8], "little") >> 1)


def _draw(name: str, shape: tuple[int, ...], generator: torch.Generator, last_conv: str) -> torch.Tensor:
    kind = name.rsplit(".", 1)[-1]
    if kind == "initialized":
        return torch.ones(shape, device=generator.device)
    if kind in ("cluster_usage", "scale", "gamma"):
        low, high = (0.5, 3.0) if kind == "cluster_usage" else (0.1, 0.6)
        return torch.rand(shape, generator=generator, device=generator.device) * (high - low) + low
    if generator.device.type == "cpu":
        normal = randn(shape, generator)
    else:
        normal = torch.randn(shape, generator=generator, device=generator.device)
    if "norm" in name and kind == "weight":
        return 1 + normal * 0.2
    return normal * _deviation(name, kind, shape, last_conv)


def _deviation(name: str, kind: str, shape: tuple[int, ...], last_conv: str) -> float:
    if kind == "embedding_sum":
        return 1.0
    if kind == "embed_sum":
        return 2.0 * 0.9 ** _residual_stage(name)
    if kind in ("alpha", "beta"):
        return 0.3
    if kind == "bias":
        return 0.1
    if "text_embedding" in name:
        return 1.0
    if "codec_embedding" in name:
        return 0.35
    if name.endswith("codec_head.weight") or ".lm_head." in name:
        return 3.0 / math.sqrt(shape[-1])
    return _fan_in_deviation(name, shape, last_conv)


def _residual_stage(name: str) -> int:
    """Return the index of a codebook in its residual quantizer. Later stages see smaller residuals."""
    return 0 if "semantic" in name else int(name.split(".layers.")[1].split(".")[0])


def _fan_in_deviation(name: str, shape: tuple[int, ...], last_conv: str) -> float:
    if name.startswith("decoder.decoder") and ".block.1.conv." in name:
        return 1.0 / math.sqrt(shape[0] * 2)  # transposed: two taps contribute to each output
    if name.startswith("decoder.upsample") and name.endswith("0.conv.weight"):
        return 1.0 / math.sqrt(shape[0])  # transposed: one tap
    if name.startswith("decoder.decoder") and name.endswith("conv2.conv.weight"):
        return 0.3 / math.sqrt(shape[1])  # prevents growth over the residual units
    if name == last_conv:
        return _LAST_CONV_GAIN / math.sqrt(shape[1] * shape[2])
    louder = name.startswith("encoder.encoder.layers") or any(part in name for part in _LOUDER)
    return (1.5 if louder else 1.0) / math.sqrt(math.prod(shape[1:]))
