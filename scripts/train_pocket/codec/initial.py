"""Initial weights that preserve the variance of the signal in each layer (He et al. 2015).

The default initialization of torch reduces the power of a signal by a factor of three at each convolution. After
thirteen of them the latents of two different recordings hardly differ, and a codec that is then trained for minutes
instead of days only uses a few of their dimensions.
"""

from __future__ import annotations

from math import sqrt

from torch import nn

from scripts.train_pocket.codec.layers import ResidualUnit
from scripts.train_pocket.codec.model import Codec

_BRANCH = 0.3
"""Gain of the last convolution of a residual branch, because the branches add up."""
_SAMPLES = 0.02
"""Gain of the very last convolution, so that the initial samples are as loud as speech."""


def initialize(codec: Codec) -> None:
    """Initialize all weights at random, and the biases with 0."""
    for module in codec.modules():
        if isinstance(module, nn.Conv1d | nn.Linear):
            _initialize_layer(module, module.weight[0].numel())
        elif isinstance(module, nn.ConvTranspose1d):
            _initialize_layer(module, module.weight.shape[0] * module.weight.shape[2] // module.stride[0])
    for module in codec.decoder.modules():
        if isinstance(module, ResidualUnit):
            module.conv2.conv.weight.data.mul_(_BRANCH)
    for name, parameter in codec.encoder.named_parameters():
        if name.endswith("block.3.conv.weight"):
            parameter.data.mul_(_BRANCH)
    last = codec.decoder.decoder[-1]
    next(last.parameters()).data.mul_(_SAMPLES)


def _initialize_layer(module: nn.Conv1d | nn.Linear | nn.ConvTranspose1d, inputs: int) -> None:
    nn.init.normal_(module.weight, std=1 / sqrt(inputs))
    if module.bias is not None:
        nn.init.zeros_(module.bias)
