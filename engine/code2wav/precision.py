"""The choice of a dtype for Code2Wav's convolutions on a CPU."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType

import torch

from engine.checkpoint.architecture import DecoderArchitecture
from engine.config import Code2WavConfig
from engine.device.timing import Timing, fastest_call, torch_threads
from engine.device.timing_cache import cached_on_disk
from engine.errors import SetupError
from engine.kernels.conv import bfloat16_runs
from engine.models.code2wav_blocks import Stage, StreamConv, StreamState
from engine.protocol.request import FRAME_MS

_INT16_SHARE = 0.1
"""Share of a frame's duration that the convolutions may take in int16. The cores are for the talker, too."""
_MIN_PRODUCTS = 50_000_000
"""Multiplications per frame below which auto is float32. Any CPU takes a few milliseconds."""
_FASTER = 0.8
"""bfloat16, which is less accurate, is used if it takes at most this share of the time of int16."""
_FRAMES = 4
_SECONDS = 0.05
"""Minimum time of each measurement."""
_REST = 0.35
"""Time of everything but the wide convolutions, relative to that of the wide convolutions in float32."""
_REST_COMPILED = 0.2
"""The same with int16, where the activations are compiled, too."""
_DTYPES: Mapping[str, torch.dtype] = MappingProxyType(
    {"float32": torch.float32, "int16": torch.int16, "bfloat16": torch.bfloat16}
)
_log = logging.getLogger(__name__)


def choose_dtype(config: Code2WavConfig, decoder: DecoderArchitecture, device: torch.device) -> torch.dtype:
    """Return the dtype of the convolutions outside Triton. ``auto`` is float32 on a GPU.

    On a CPU, ``auto`` is float32 for small decoders, and where 16-bit integers have no special instructions. Otherwise
    it is int16; or bfloat16, if that is supported and int16 is too slow.

    Raises SetupError if bfloat16 or int16 is configured, and the device or oneDNN does not support it.
    """
    on_cpu = device.type == "cpu"
    if config.dtype == "bfloat16" and not (on_cpu and bfloat16_runs()):
        where = "this CPU does not support it" if on_cpu else f"the device is {device.type}"
        raise SetupError(f"engine.code2wav.dtype: bfloat16 needs an x86 CPU with AVX512, but {where}: set it to auto")
    if config.dtype == "int16" and not on_cpu:
        raise SetupError(f"engine.code2wav.dtype: int16 needs a CPU, but the device is {device.type}: set it to auto")
    if config.dtype in _DTYPES:
        return _DTYPES[config.dtype]
    if config.dtype != "auto" or not on_cpu or _products(decoder) < _MIN_PRODUCTS:
        return torch.float32
    return _fastest(decoder) if multiplies_int16() else torch.float32


def multiplies_int16() -> bool:
    """Return whether the CPU has special instructions for products of 16-bit integers."""
    # Imported here, because it imports numba.
    from engine.kernels.compiled.integer_dots import cpu_features, pair_instructions

    return pair_instructions(cpu_features()) != "generic"


def _fastest(decoder: DecoderArchitecture) -> torch.dtype:
    """Return int16 or bfloat16, and log what was measured."""
    if not bfloat16_runs():
        return torch.int16
    threads = torch.get_num_threads()
    int16 = convolution_ms(decoder, torch.int16, threads)
    if int16 <= _INT16_SHARE * FRAME_MS:
        return torch.int16
    bfloat16 = convolution_ms(decoder, torch.bfloat16, threads)
    selected = torch.bfloat16 if bfloat16 <= _FASTER * int16 else torch.int16
    _log.info(
        "code2wav.dtype: auto selects %s; convolutions per frame of %.0f ms: int16 %.1f ms, bfloat16 %.1f ms. Set "
        "engine.code2wav.dtype to one of them, or to float32, to force it",
        dtype_name(selected),
        FRAME_MS,
        int16,
        bfloat16,
    )
    return selected


def dtype_name(dtype: torch.dtype) -> str:
    """Return the configuration's name of a dtype that ``choose_dtype`` returns."""
    return next(name for name, each in _DTYPES.items() if each == dtype)


def code2wav_ms(decoder: DecoderArchitecture, dtype: torch.dtype, threads: int) -> float:
    """Return about how many milliseconds per frame Code2Wav takes in large chunks."""
    if dtype == torch.int16:  # torch may then have one thread (see ``CpuPlan.compiled``)
        rest = _REST_COMPILED * convolution_ms(decoder, torch.float32, 1)
    else:
        rest = _REST * convolution_ms(decoder, torch.float32, threads)
    return rest + convolution_ms(decoder, dtype, threads)


@cached_on_disk
@torch.inference_mode()
def convolution_ms(decoder: DecoderArchitecture, dtype: torch.dtype, threads: int) -> Timing:
    """Return the milliseconds per frame that the wide convolutions take in large chunks.

    Measures one of them, a 7-tap convolution of the first block, and counts the products of all. With int16 the
    time to round the input is included.
    """
    channels, columns = decoder.decoder_dim // 2, _columns(decoder, 1)
    weight, bias = torch.zeros(channels, channels, 7), torch.zeros(channels)
    with torch_threads(threads):  # oneDNN packs weights for that many
        if dtype == torch.int16:
            from engine.models.compiled_convolutions import CompiledConvolutions, Convolution

            stage: Stage = CompiledConvolutions([Convolution(weight, bias)], threads)
        else:
            stage = StreamConv(weight, bias, columns=columns, dtype=dtype)
    x = torch.ones(1, _FRAMES * columns, channels)
    state = [torch.zeros((1, *each.shape), dtype=each.dtype) for each in stage.states]
    products = _FRAMES * columns * 7 * channels**2
    seconds, disturbed = fastest_call(lambda: stage(x, StreamState(state)), _SECONDS, threads)
    return Timing(1000 * seconds * _products(decoder) / products, disturbed)


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
