"""Converts the trained encoder to the checkpoint's tensors: folds norms into convolutions and centers the vectors."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from engine.checkpoint.architecture import SpeakerEncoderArchitecture
from scripts.train_pocket.speaker.ecapa import Ecapa

PREFIX = "speaker_encoder."


@torch.no_grad()
def fold(trained: Ecapa, architecture: SpeakerEncoderArchitecture) -> Ecapa:
    """Return the same function without norms, in eval mode. Each norm is folded into the convolution next to it."""
    plain = Ecapa(architecture, training_norms=False).to(trained.fc.weight.device)
    plain.load_state_dict({name: value for name, value in trained.state_dict().items() if "norm" not in name})
    for name, module in trained.named_modules():
        norm = getattr(module, "norm", None)
        if isinstance(norm, nn.BatchNorm1d):
            _apply_after(plain.get_submodule(f"{name}.conv"), *_scale_and_shift(norm))
    _apply_before(plain.get_submodule("blocks.0.conv"), *_scale_and_shift(trained.norm_in))
    _apply_after(plain.fc, *_scale_and_shift(trained.norm_out))
    return plain.eval().requires_grad_(False)


@torch.no_grad()
def calibrate(encoder: Ecapa, vectors: Tensor, speakers: Tensor) -> None:
    """Change the last convolution so that the mean over speakers is zero and the mean RMS of the vectors is one.

    vectors: the current output [n, width]. speakers: int64 [n].
    """
    totals = torch.zeros(int(speakers.max()) + 1, vectors.shape[1], device=vectors.device)
    counts = torch.bincount(speakers, minlength=len(totals))[:, None]
    means = totals.index_add_(0, speakers, vectors) / counts.clamp(min=1)
    center = means[counts[:, 0] > 0].mean(0)
    scale = 1 / (vectors - center).square().mean(1).sqrt().mean()
    _apply_after(encoder.fc, scale.expand_as(center), -center * scale)


def save(encoder: Ecapa, file: Path) -> None:
    """Write the checkpoint's tensors in bfloat16."""
    save_file({PREFIX + name: value.to("cpu", torch.bfloat16) for name, value in encoder.state_dict().items()}, file)


def load(file: Path, architecture: SpeakerEncoderArchitecture, device: torch.device) -> Ecapa:
    """Load a file that ``save`` wrote. Return the encoder in float32, in eval mode."""
    encoder = Ecapa(architecture, training_norms=False)
    encoder.load_state_dict({name.removeprefix(PREFIX): value.float() for name, value in load_file(file).items()})
    return encoder.to(device).eval().requires_grad_(False)


def _scale_and_shift(norm: nn.Module) -> tuple[Tensor, Tensor]:
    """Return scale and shift [width] such that the norm is scale * x + shift."""
    assert isinstance(norm, nn.BatchNorm1d) and norm.running_mean is not None and norm.running_var is not None
    scale = (norm.running_var + norm.eps).rsqrt()
    if not norm.affine:
        return scale, -norm.running_mean * scale
    return norm.weight * scale, norm.bias - norm.running_mean * norm.weight * scale


def _apply_after(conv: nn.Module, scale: Tensor, shift: Tensor) -> None:
    assert isinstance(conv, nn.Conv1d) and conv.bias is not None
    conv.weight.mul_(scale[:, None, None])
    conv.bias.mul_(scale).add_(shift)


def _apply_before(conv: nn.Module, scale: Tensor, shift: Tensor) -> None:
    """Fold a norm before the convolution. This is exact at the edges, too, because of the reflect padding."""
    assert isinstance(conv, nn.Conv1d) and conv.bias is not None
    conv.bias.add_(torch.einsum("oik,i->o", conv.weight, shift))
    conv.weight.mul_(scale[:, None])
