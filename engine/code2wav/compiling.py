"""Compiling Code2Wav's kernels for a GPU on every core, before any of them is needed.

What was compiled stays in Triton's cache on disk, so only the first start of a new version compiles anything.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from engine.architecture import CodecArchitecture
from engine.cores import available_cores
from engine.kernels.codec_tiles import AMPLE
from engine.layout import codec_shapes
from engine.models.code2wav_row_weights import RowWeights
from engine.models.code2wav_rows import RowDecoder, StreamMemory, Workspace
from engine.request import CODEBOOKS, SAMPLES_PER_FRAME

_MOST_THREADS = 16
_META = torch.device("meta")
_log = logging.getLogger(__name__)


class _Compile:
    """The ``Launch`` that has each kind of launch compiled once, and runs none."""

    def __init__(self) -> None:
        self._kinds: set[tuple[object, ...]] = set()

    def __call__(self, kernel: Any, grid: tuple[int, ...], *given: Any, **constants: Any) -> None:
        kind = (id(kernel), *map(_kind, given), *constants.values())
        if kind not in self._kinds:
            self._kinds.add(kind)
            kernel.warmup(*given, grid=grid, **constants)


def compile_kernels(
    codec: CodecArchitecture, dtype: torch.dtype, sizes: Iterable[tuple[int, int]], shared: int = AMPLE
) -> None:
    """Those of batches of (streams, frames), in parallel. Nothing of it is on the GPU. shared: see ``TritonOps``."""
    from engine.kernels.codec_triton import TritonOps

    began = time.monotonic()
    weights = _outline(codec, dtype)
    memory, decoder = StreamMemory(weights, 1), RowDecoder(weights, TritonOps(_Compile(), shared))
    threads = min(_MOST_THREADS, available_cores())
    with ThreadPoolExecutor(threads) as pool, _parallel(pool), torch.inference_mode():
        for size in sizes:
            _decode(decoder, weights, memory, *size)
    _log.info("Code2Wav's kernels were compiled, or found in Triton's cache, in %.1f s", time.monotonic() - began)


def _parallel(pool: Executor) -> AbstractContextManager[object]:
    """Within it Triton compiles in ``pool``; a Triton that cannot compiles one kernel after another."""
    import triton

    mode = getattr(triton, "AsyncCompileMode", None)
    return nullcontext() if mode is None else mode(pool)


def _outline(codec: CodecArchitecture, dtype: torch.dtype) -> RowWeights:
    """The weights without their values."""
    prefix = "decoder."
    tensors = {
        name.removeprefix(prefix): torch.empty(shape, device=_META)
        for name, shape in codec_shapes(codec).items()
        if name.startswith(prefix)
    }
    return RowWeights(tensors, codec.decoder, device=_META, dtype=dtype)


def _decode(decoder: RowDecoder, weights: RowWeights, memory: StreamMemory, streams: int, frames: int) -> None:
    work = torch.empty(Workspace.size(weights, streams, frames), dtype=weights.dtype, device=_META)
    codes = torch.empty(streams, frames, CODEBOOKS, dtype=torch.int64, device=_META)
    rows = torch.empty(streams, dtype=torch.int64, device=_META)
    samples = torch.empty(streams, frames * SAMPLES_PER_FRAME, dtype=torch.int16, device=_META)
    decoder.decode(codes, rows, memory, Workspace(weights, streams, frames, work), samples)


def _kind(given: object) -> object:
    """What of an argument Triton compiles for: at least."""
    if isinstance(given, torch.Tensor):
        return given.dtype
    return (given == 1, given % 16 == 0) if isinstance(given, int) else type(given)
