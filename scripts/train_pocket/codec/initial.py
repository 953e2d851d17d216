"""Weights to begin with: every layer keeps its input's size (He et al. 2015).

torch's own beginning shrinks a signal threefold in power at each convolution. After thirteen of them the latents
of two different recordings hardly differ, and a codec trained from there for minutes, not days, keeps using only a
handful of their dimensions.
"""

from __future__ import annotations

from math import sqrt

from torch import nn

from scripts.train_pocket.codec.layers import ResidualUnit
from scripts.train_pocket.codec.model import Codec

_BRANCH = 0.3
"""Of the last convolution of a residual branch: the branches add up."""
_SAMPLES = 0.02
"""Of the last convolution of all, so that the first samples are as loud as speech."""


def initialise(codec: Codec) -> None:
    """Draw all weights anew; biases are 0."""
    for module in codec.modules():
        if isinstance(module, nn.Conv1d | nn.Linear):
            _draw(module, module.weight[0].numel())
        elif isinstance(module, nn.ConvTranspose1d):
            _draw(module, module.weight.shape[0] * module.weight.shape[2] // module.stride[0])
    for module in codec.decoder.modules():
        if isinstance(module, ResidualUnit):
            module.conv2.conv.weight.data.mul_(_BRANCH)
    for name, parameter in codec.encoder.named_parameters():
        if name.endswith("block.3.conv.weight"):
            parameter.data.mul_(_BRANCH)
    last = codec.decoder.decoder[-1]
    next(last.parameters()).data.mul_(_SAMPLES)


def _draw(module: nn.Conv1d | nn.Linear | nn.ConvTranspose1d, inputs: int) -> None:
    nn.init.normal_(module.weight, std=1 / sqrt(inputs))
    if module.bias is not None:
        nn.init.zeros_(module.bias)
