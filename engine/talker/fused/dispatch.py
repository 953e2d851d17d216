"""Chooses the kernels that sample a frame's codes on this device, after a self-check."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from engine.checkpoint.architecture import TalkerArchitecture
from engine.errors import SetupError
from engine.kernels.fallback import reason_for_fallback, require_gpu
from engine.kernels.nvrtc import CUDA as KERNELS
from engine.kernels.nvrtc import CooperativeKernel, KernelError, compile_cubin
from engine.models.code_predictor import CodePredictor
from engine.models.talker import CodecSide
from engine.models.weights import Weights
from engine.talker.fused import batched
from engine.talker.fused.batched import BatchedCodes, BatchedSizes
from engine.talker.fused.fp8 import Fp8PrecisionError, round_to_fp8
from engine.talker.fused.persistent import CUDA, KERNEL, MAX_ROWS, PersistentCodes, Sizes, kernel_for, published_sizes
from engine.talker.fused.weights import PredictorWeights, gather
from engine.talker.gpu_step.frame_sampler import (
    FirstCodeSampler,
    PlainFirstCodes,
    PlainResidualCodes,
    ResidualCodes,
    RngKey,
)
from engine.talker.gpu_step.slots import Slots
from engine.talker.sampling_params import CodebookParams, SamplingTensors

Fallback = Callable[[str], ResidualCodes]
"""Called with the reason when a kernel is unavailable: returns the fallback, or raises when none is allowed."""
OPTIONS = ("--gpu-architecture=sm_90a", "--std=c++17")
"""NVRTC options of the CUDA kernels."""
_log = logging.getLogger(__name__)
_CAPABILITY = (9, 0)
"""Compute capability for which the CUDA kernels are compiled: sm_90a."""


def self_check(codes: ResidualCodes, rows: int, weights: PredictorWeights) -> None:
    """Sample one frame for ``rows`` rows of zeros.

    Raises the error of ``codes`` when a kernel cannot be compiled or launched. Raises EngineFailed when a kernel fails
    while it runs: after that, every CUDA call of this process fails, so no fallback is possible.
    """
    zeros = torch.zeros(rows, device=weights.device, dtype=torch.int64)
    hidden = torch.zeros(rows, weights.talker_hidden, device=weights.device, dtype=weights.dtype)
    params = SamplingTensors.of([CodebookParams()] * rows, weights.device)
    codes(hidden, zeros, params, RngKey(zeros, zeros))
    require_gpu()


class DispatchBySize:
    """``ResidualCodes`` that calls ``small`` for up to ``limit`` rows and ``large`` for more.

    The CUDA graph of each batch size contains only one of them.
    """

    def __init__(self, small: ResidualCodes, limit: int, large: ResidualCodes) -> None:
        self._small, self._limit, self._large = small, limit, large

    def __call__(self, hidden: Tensor, first: Tensor, params: SamplingTensors, rng: RngKey) -> tuple[Tensor, Tensor]:
        """Sample with the implementation chosen for this number of rows."""
        chosen = self._small if len(hidden) <= self._limit else self._large
        return chosen(hidden, first, params, rng)


def first_code_sampler(slots: Slots) -> FirstCodeSampler:
    """Return the sampler of codebook 0: one fused launch if there is a GPU and Triton compiles it, else plain torch."""
    if slots.seeds.device.type == "cuda" and _has_triton():
        try:
            from engine.talker.fused.triton import FusedFirstCodes

            fused = FusedFirstCodes(slots)
            fused.self_check()
        except Exception as error:
            _log.info("codebook 0 is sampled in plain torch: %s", reason_for_fallback(error))
        else:
            return fused
    return PlainFirstCodes(slots)


def residual_codes(
    weights: Weights, talker: TalkerArchitecture, codec: CodecSide, sizes: Sequence[int], *, fp8: bool = False
) -> ResidualCodes:
    """Return the sampler of codebooks 1 to 15, and log which one was chosen.

    weights: the checkpoint's tensors under ``talker.code_predictor.``; sizes: all batch sizes in rows, in ascending
    order; fp8: store the matrices in fp8. Raises SetupError when fp8 is requested but not possible.
    """

    def plain(reason: str) -> ResidualCodes:
        _log.info("codebooks 1 to 15 are sampled in plain torch: %s", reason)
        return PlainResidualCodes(CodePredictor(weights, talker, code_tables=codec.tables, rows=sizes[-1]), codec)

    def refuse(reason: str) -> ResidualCodes:
        raise SetupError(f"talker.vllm.fp8_predictor is not possible: {reason}")

    reason = _unsupported(weights)
    if reason is not None:
        return refuse(reason) if fp8 else plain(reason)
    if fp8:
        return _fused_fp8(gather(weights, talker, codec), sizes, refuse)
    return _bfloat16_codes(gather(weights, talker, codec), sizes, plain)


def _unsupported(weights: Weights) -> str | None:
    """Return why no fused kernel can be used; None if one may be."""
    if weights.device.type != "cuda":
        return "there is no GPU"
    if weights.dtype != torch.bfloat16:
        return f"the weights must be bfloat16, got {str(weights.dtype).removeprefix('torch.')}"
    return None if _has_triton() else "Triton is not installed"


def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def _fused_fp8(weights: PredictorWeights, sizes: Sequence[int], refuse: Fallback) -> ResidualCodes:
    """Use the persistent kernel with fp8 weights, and for larger batches the rounded weights in bfloat16."""
    try:
        weights = round_to_fp8(weights)
        small = persistent_codes(weights, [size for size in sizes if size <= MAX_ROWS], fp8=True)
    except (Fp8PrecisionError, KernelError) as error:
        return refuse(str(error))
    _log.info("codebooks 1 to 15 are sampled with fp8 weights, read as fp8 in batches of up to %d rows", MAX_ROWS)
    larger = [size for size in sizes if size > MAX_ROWS]
    return DispatchBySize(small, MAX_ROWS, _bfloat16_codes(weights, larger, refuse)) if larger else small


def _bfloat16_codes(weights: PredictorWeights, sizes: Sequence[int], fallback: Fallback) -> ResidualCodes:
    """Use the batched kernel where it is possible, and the Triton kernels for the other batches."""
    fitting = [size for size in sizes if size <= batched.MAX_ROWS]
    if not fitting:
        return _triton_codes(weights, sizes, fallback)
    try:
        codes = batched_codes(weights, fitting)
    except KernelError as error:
        _log.info("codebooks 1 to 15 are not sampled by the batched kernel: %s", error)
        return _triton_codes(weights, sizes, fallback)
    _log.info("codebooks 1 to 15 are sampled by the batched kernel in batches of up to %d rows", batched.MAX_ROWS)
    larger = sizes[len(fitting) :]
    return DispatchBySize(codes, batched.MAX_ROWS, _triton_codes(weights, larger, fallback)) if larger else codes


def _triton_codes(weights: PredictorWeights, sizes: Sequence[int], fallback: Fallback) -> ResidualCodes:
    """Use the Triton kernels, after a self-check of every batch size. If they fail, return ``fallback(reason)``."""
    try:
        from engine.talker.fused.triton import TritonCodes, unsupported

        reason = unsupported(weights)
        if reason is None:
            codes = TritonCodes(weights, sizes[-1])
            for size in sizes:
                self_check(codes, size, weights)
            return codes
    except Exception as error:
        reason = reason_for_fallback(error)
    return fallback(reason)


def persistent_codes(weights: PredictorWeights, batches: Sequence[int], *, fp8: bool = False) -> PersistentCodes:
    """Compile and load the persistent kernel for ``batches`` (row counts in ascending order), and run a self-check.

    fp8: the kernel reads fp8 weights; ``weights`` must be the output of ``round_to_fp8``. In bfloat16 only tests and
    benchmarks use the kernel.

    Raises KernelError when this checkpoint or GPU is not supported or the kernel cannot be compiled, and EngineFailed
    when a launched kernel fails.
    """
    sizes = replace(_supported_sizes(weights), fp8=fp8)
    needed = sorted({kernel_for(rows) for rows in batches})
    with ThreadPoolExecutor(len(needed)) as pool:
        cubins = dict(zip(needed, pool.map(partial(_cubin, sizes), needed), strict=True))
    launches = {
        max_rows: CooperativeKernel(cubin, KERNEL, blocks=sizes.blocks, threads=sizes.threads, device=weights.device)
        for max_rows, cubin in cubins.items()
    }
    codes = PersistentCodes(weights, sizes, launches)
    for max_rows in needed:
        self_check(codes, min(max_rows, batches[-1]), weights)
    return codes


def batched_codes(weights: PredictorWeights, batches: Sequence[int]) -> BatchedCodes:
    """Compile and load the batched kernels for ``batches`` (row counts in ascending order), and run a self-check.

    Raises the errors of ``persistent_codes``.
    """
    needed = batched.kernels_for(_supported_sizes(weights), batches)
    with ThreadPoolExecutor(len(needed)) as pool:
        cubins = dict(zip(needed, pool.map(batched_cubin, needed), strict=True))
    codes = BatchedCodes(
        weights,
        {
            sizes: CooperativeKernel(
                cubin, batched.KERNEL, blocks=sizes.blocks, threads=sizes.threads, device=weights.device
            )
            for sizes, cubin in cubins.items()
        },
    )
    for sizes in needed:
        self_check(codes, min(sizes.max_rows, batches[-1]), weights)
    return codes


def _supported_sizes(weights: PredictorWeights) -> Sizes:
    """Return the model's sizes. Raises KernelError if the CUDA kernels do not support them or the GPU."""
    sizes = published_sizes(weights.shape, weights.vocab, weights.codebooks, weights.talker_hidden)
    if sizes is None:
        raise KernelError("the code predictor of the checkpoint does not have the published sizes")
    require_capability(weights.device, sizes.blocks)
    return sizes


def require_capability(device: torch.device, blocks: int) -> None:
    """Raise KernelError if the CUDA kernels do not run on the GPU with this number of blocks."""
    gpu = torch.cuda.get_device_properties(device)
    if (gpu.major, gpu.minor) != _CAPABILITY or gpu.multi_processor_count < blocks:
        raise KernelError(
            f"the CUDA kernels need compute capability 9.0 and {blocks} multiprocessors, but {gpu.name} "
            f"has {gpu.major}.{gpu.minor} and {gpu.multi_processor_count}"
        )


def _cubin(sizes: Sizes, rows: int) -> bytes:
    return compile_cubin(CUDA / "persistent.cu", [*OPTIONS, *sizes.macros(rows)])


def batched_cubin(sizes: BatchedSizes) -> bytes:
    """Return the cubin of the batched kernel, from the cache or compiled. Raises KernelError."""
    return compile_cubin(CUDA / "batched.cu", [*OPTIONS, *sizes.macros()], include=[KERNELS])
