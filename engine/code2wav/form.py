"""How Code2Wav is run on the device that is there."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

import torch

from engine.architecture import DecoderArchitecture
from engine.code2wav.graphs import captured_sizes
from engine.code2wav.schedule import batch_limit
from engine.config import Code2WavConfig
from engine.errors import SetupError

_NARROWEST_HALF = 16
"""Channels of half a head, of which the attention kernel's products are made."""


@dataclass(frozen=True)
class Form:
    """dtype: what is multiplied; plain: why not by Triton's kernels in captured graphs, or None; sizes: of those."""

    dtype: torch.dtype
    plain: str | None
    sizes: list[tuple[int, int]]

    @property
    def graphed(self) -> bool:
        """Whether it is by Triton's kernels in captured graphs."""
        return self.plain is None


def choose_form(config: Code2WavConfig, streams: int, device: torch.device, decoder: DecoderArchitecture) -> Form:
    """Choose for at most ``streams`` at once. Raises SetupError if the configured dtype is not to be had here."""
    plain = _why_plain(device, decoder)
    if plain is not None:
        return without_kernels(config, plain)
    dtype = torch.float32 if config.dtype == "float32" else torch.float16
    sizes = captured_sizes(streams, config.max_chunk_frames, batch_limit(config, padded=True))
    return Form(dtype, None, sizes)


def without_kernels(config: Code2WavConfig, why: str) -> Form:
    """That of plain torch. Raises SetupError if the configured dtype is not to be had so."""
    if config.dtype == "float16":
        raise SetupError(f"engine.code2wav.dtype is float16, which is not to be had here: {why}")
    return Form(torch.float32, why, [])


def _why_plain(device: torch.device, decoder: DecoderArchitecture) -> str | None:
    if device.type != "cuda":
        return "there is no GPU"
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    if decoder.transformer.head_dim < 2 * _NARROWEST_HALF:
        return f"the codec's heads have only {decoder.transformer.head_dim} channels"
    return None
