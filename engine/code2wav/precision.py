"""The choice of a dtype for Code2Wav's convolutions on a CPU."""

from __future__ import annotations

import logging
from functools import cache

import torch

from engine.checkpoint.architecture import DecoderArchitecture
from engine.config import Code2WavConfig
from engine.device.timing import fastest_call, torch_threads
from engine.errors import SetupError
from engine.kernels.conv import Conv1d, bfloat16_runs
from engine.protocol.request import FRAME_MS

_FLOAT32_SHARE = 0.1
"""Share of a frame's duration that the convolutions may take in float32. The cores are for the talker, too."""
_FASTER = 0.8
"""bfloat16 is used if it takes at most this share of the time of float32."""
_FRAMES = 12
_SECONDS = 0.03
"""Minimum time of each measurement."""
_REST = 0.35
"""Time of everything but the wide convolutions, relative to that of the wide convolutions in float32."""
_log = logging.getLogger(__name__)


def choose_dtype(config: Code2WavConfig, decoder: DecoderArchitecture, device: torch.device) -> torch.dtype:
    """Return the dtype of the wide convolutions in plain torch. ``auto`` is measured on a CPU, and float32 elsewhere.

    Raises SetupError if bfloat16 is configured, and the device or oneDNN does not support it.
    """
    runs = device.type == "cpu" and bfloat16_runs()
    if config.dtype == "bfloat16":
        if not runs:
            where = "this CPU does not support it" if device.type == "cpu" else f"the device is {device.type}"
            raise SetupError(f"engine.code2wav.dtype: bfloat16 needs a CPU with AVX512, but {where}: set it to auto")
        return torch.bfloat16
    if config.dtype != "auto" or not runs:
        return torch.float32
    threads = torch.get_num_threads()
    exact = convolution_ms(decoder, torch.float32, threads)
    if exact <= _FLOAT32_SHARE * FRAME_MS:
        return torch.float32
    rounded = convolution_ms(decoder, torch.bfloat16, threads)
    selected = torch.bfloat16 if rounded <= _FASTER * exact else torch.float32
    _log.info(
        "code2wav.dtype: auto selects %s; convolutions per frame of %.0f ms: float32 %.1f ms, bfloat16 %.1f ms. Set "
        "engine.code2wav.dtype to float32 or bfloat16 to force one",
        str(selected).removeprefix("torch."),
        FRAME_MS,
        exact,
        rounded,
    )
    return selected


def code2wav_ms(decoder: DecoderArchitecture, dtype: torch.dtype, threads: int) -> float:
    """Return about how many milliseconds per frame Code2Wav takes in large chunks."""
    rest = _REST * convolution_ms(decoder, torch.float32, threads)
    return rest + convolution_ms(decoder, dtype, threads)


@cache
@torch.inference_mode()
def convolution_ms(decoder: DecoderArchitecture, dtype: torch.dtype, threads: int) -> float:
    """Return the milliseconds per frame that the wide convolutions take in large chunks.

    Measures one of them, a 7-tap convolution of the first block, and counts the products of all.
    """
    channels, columns = decoder.decoder_dim // 2, _columns(decoder, 1)
    with torch_threads(threads):  # oneDNN packs weights for that many
        convolution = Conv1d(torch.zeros(channels, channels, 7), None, columns=columns, dtype=dtype)
    x = torch.ones(1, _FRAMES * columns + convolution.history, channels)
    products = _FRAMES * columns * 7 * channels**2
    return 1000 * fastest_call(lambda: convolution(x), _SECONDS, threads) * _products(decoder) / products


def _columns(decoder: DecoderArchitecture, block: int) -> int:
    """Return the columns per frame after ``block`` blocks."""
    columns = 1
    for rate in (*decoder.upsampling_ratios, *decoder.upsample_rates[:block]):
        columns *= rate
    return columns


def _products(decoder: DecoderArchitecture) -> int:
    """Return the multiplications per frame of the first convolution and of all blocks (SPEC 9)."""
    width = decoder.decoder_dim
    total = _columns(decoder, 0) * 7 * decoder.latent * width
    for block in range(1, len(decoder.upsample_rates) + 1):
        columns, narrow = _columns(decoder, block), width // 2
        total += columns * (2 * width * narrow + 3 * (7 + 1) * narrow**2)
        width = narrow
    return total
