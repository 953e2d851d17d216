"""Inserts batch norms into a checkpoint's speaker encoder, to train it further. The inverse of ``folding.fold``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from scripts.train_pocket.speaker.ecapa import Ecapa
from scripts.train_pocket.speaker.folding import PREFIX


@torch.no_grad()
def unfold(encoder: Ecapa, file: Path, mels: Tensor) -> None:
    """Load the folded weights of ``file`` into an encoder with norms.

    Every norm gets the statistics of ``mels`` [batch, bands, n] and the scale and shift that undo it. The last one has
    neither, so the vectors are centered and each component is scaled to a variance of one.
    """
    weights = {name.removeprefix(PREFIX): value.float() for name, value in load_file(file).items()}
    mismatch = encoder.load_state_dict(weights, strict=False)
    if mismatch.unexpected_keys or any("norm" not in name for name in mismatch.missing_keys):
        raise ValueError(f"{file} is of another speaker encoder: {mismatch}")
    was_training = encoder.training
    encoder.eval()
    _undo_before(encoder.get_submodule("blocks.0.conv"), encoder.norm_in, mels)
    norms = [
        module for module in encoder.modules() if isinstance(module, nn.BatchNorm1d) and module is not encoder.norm_in
    ]
    hooks = [norm.register_forward_pre_hook(_become_identity) for norm in norms]
    encoder(mels)
    for hook in hooks:
        hook.remove()
    encoder.train(was_training)


def _become_identity(norm: nn.Module, inputs: tuple[Any, ...]) -> None:
    assert isinstance(norm, nn.BatchNorm1d)
    mean, variance = _set_statistics(norm, inputs[0])
    if norm.affine:
        norm.weight.data.copy_((variance + norm.eps).sqrt())
        norm.bias.data.copy_(mean)


def _set_statistics(norm: nn.BatchNorm1d, inputs: Tensor) -> tuple[Tensor, Tensor]:
    mean, variance = inputs.float().mean((0, 2)), inputs.float().var((0, 2), unbiased=False)
    assert norm.running_mean is not None and norm.running_var is not None
    norm.running_mean.copy_(mean)
    norm.running_var.copy_(variance)
    return mean, variance


def _undo_before(conv: nn.Module, norm: nn.Module, inputs: Tensor) -> None:
    """Give the norm the statistics of its inputs, and the convolution after it the weights that undo it."""
    assert isinstance(conv, nn.Conv1d) and conv.bias is not None and isinstance(norm, nn.BatchNorm1d)
    mean, variance = _set_statistics(norm, inputs)
    conv.bias.add_(torch.einsum("oik,i->o", conv.weight, mean))
    conv.weight.mul_((variance + norm.eps).sqrt()[None, :, None])
