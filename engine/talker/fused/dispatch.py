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
from engine.kernels.nvrtc import CooperativeKernel, KernelError, compile_cubin
from engine.models.code_predictor import CodePredictor
from engine.models.talker import CodecSide
from engine.models.weights import Weights
from engine.talker.fused.fp8 import PoorFit, rounded
from engine.talker.fused.persistent import CUDA, KERNEL, MOST_ROWS, PersistentCodes, Sizes, kernel_for, published_sizes
from engine.talker.fused.weights import PredictorWeights, gather
from engine.talker.gpu_step.sampler import DrawFirst, PlainFirstCodes, PlainResidualCodes, ResidualCodes, RngKey
from engine.talker.gpu_step.slots import RowDraws, Slots


def self_check(codes: ResidualCodes, rows: int, weights: PredictorWeights) -> None:
    """Sample one frame for ``rows`` rows of zeros.

    Raises the error of ``codes`` when a kernel cannot be compiled or launched. Raises EngineFailed when a kernel fails
    while it runs: after that, every CUDA call of this process fails, so no fallback is possible.
    """
    zeros = torch.zeros(rows, device=weights.device, dtype=torch.int64)
    ones = torch.ones(rows, device=weights.device, dtype=torch.float32)
    hidden = torch.zeros(rows, weights.talker_hidden, device=weights.device, dtype=weights.dtype)
    codes(hidden, zeros, RowDraws(ones, zeros, ones), RngKey(zeros, zeros))
    require_gpu()


Otherwise = Callable[[str], ResidualCodes]
"""Called with the reason when a kernel is unavailable: returns the fallback, or raises when none is allowed."""
_log = logging.getLogger(__name__)
_CAPABILITY = (9, 0)
"""Compute capability for which persistent.cu is compiled: sm_90a."""


class DispatchBySize:
    """``ResidualCodes`` that calls ``few`` for up to ``limit`` rows and ``many`` for more.

    The CUDA graph of each batch size contains only one of them.
    """

    def __init__(self, few: ResidualCodes, limit: int, many: ResidualCodes) -> None:
        self._few, self._limit, self._many = few, limit, many

    def __call__(self, hidden: Tensor, first: Tensor, draws: RowDraws, chance: RngKey) -> tuple[Tensor, Tensor]:
        """Sample with the implementation chosen for this number of rows."""
        chosen = self._few if len(hidden) <= self._limit else self._many
        return chosen(hidden, first, draws, chance)


def first_codes(slots: Slots) -> DrawFirst:
    """Return the sampler of codebook 0: one fused launch if there is a GPU and Triton compiles it, else plain torch."""
    if slots.drawn.device.type == "cuda" and _has_triton():
        try:
            from engine.talker.fused.triton import FusedFirstCodes

            fused = FusedFirstCodes(slots)
            fused.self_check()
        except Exception as error:
            _log.info("codebook 0 is drawn in plain torch: %s", reason_for_fallback(error))
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
        _log.info("codebooks 1 to 15 are drawn in plain torch: %s", reason)
        return PlainResidualCodes(CodePredictor(weights, talker, code_tables=codec.tables, rows=sizes[-1]), codec)

    def refuse(reason: str) -> ResidualCodes:
        raise SetupError(f"talker.vllm.fp8_predictor cannot be: {reason}")

    reason = _why_plain(weights)
    if reason is not None:
        return refuse(reason) if fp8 else plain(reason)
    if fp8:
        return _in_eight_bits(gather(weights, talker, codec), sizes, refuse)
    return _fused(gather(weights, talker, codec), sizes, plain)


def _why_plain(weights: Weights) -> str | None:
    if weights.device.type != "cuda":
        return "there is no GPU"
    if weights.dtype != torch.bfloat16:
        return "the weights are not bfloat16"
    return None if _has_triton() else "Triton is not installed"


def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def _fused(weights: PredictorWeights, sizes: Sequence[int], plain: Otherwise) -> ResidualCodes:
    few_sizes = _few(sizes)
    if not few_sizes:
        return _many_rows(weights, sizes, plain)
    try:
        few = one_launch(weights, few_sizes)
    except KernelError as error:
        _log.info("codebooks 1 to 15 are not drawn by one launch a frame: %s", error)
        return _many_rows(weights, sizes, plain)
    _log.info("codebooks 1 to 15 are drawn by one launch a frame in batches of up to %d", MOST_ROWS)
    return _with_more_rows(few, weights, sizes, plain)


def _in_eight_bits(weights: PredictorWeights, sizes: Sequence[int], refuse: Otherwise) -> ResidualCodes:
    """Use the persistent kernel with fp8 weights, and for larger batches Triton kernels with the rounded weights."""
    try:
        weights = rounded(weights)
        few = one_launch(weights, _few(sizes), fp8=True)
    except (PoorFit, KernelError) as error:
        return refuse(str(error))
    _log.info("codebooks 1 to 15 are drawn of weights of eight bits: read so in batches of up to %d", MOST_ROWS)
    return _with_more_rows(few, weights, sizes, refuse)


def _few(sizes: Sequence[int]) -> list[int]:
    return [size for size in sizes if size <= MOST_ROWS]


def _with_more_rows(
    few: ResidualCodes, weights: PredictorWeights, sizes: Sequence[int], otherwise: Otherwise
) -> ResidualCodes:
    many_sizes = [size for size in sizes if size > MOST_ROWS]
    return DispatchBySize(few, MOST_ROWS, _many_rows(weights, many_sizes, otherwise)) if many_sizes else few


def _many_rows(weights: PredictorWeights, sizes: Sequence[int], otherwise: Otherwise) -> ResidualCodes:
    """Use the Triton kernels, after a self-check of every batch size. If they fail, return ``otherwise(reason)``."""
    try:
        from engine.talker.fused.triton import TritonCodes, refusal

        reason = refusal(weights)
        if reason is None:
            codes = TritonCodes(weights, sizes[-1])
            for size in sizes:
                self_check(codes, size, weights)
            return codes
    except Exception as error:
        reason = reason_for_fallback(error)
    return otherwise(reason)


def one_launch(weights: PredictorWeights, batches: Sequence[int], *, fp8: bool = False) -> PersistentCodes:
    """Compile and load the persistent kernel for ``batches`` (row counts in ascending order), and run a self-check.

    fp8: the kernel reads fp8 weights; ``weights`` must be ``rounded``.

    Raises KernelError when this checkpoint or GPU is not supported or the kernel cannot be compiled, and EngineFailed
    when a launched kernel fails.
    """
    sizes = published_sizes(weights)
    if sizes is None:
        raise KernelError("the checkpoint's code predictor has not the published sizes")
    sizes = replace(sizes, fp8=fp8)
    card = torch.cuda.get_device_properties(weights.device)
    if (card.major, card.minor) != _CAPABILITY or card.multi_processor_count < sizes.blocks:
        raise KernelError(f"{card.name} is no GPU of compute capability 9.0 with {sizes.blocks} multiprocessors")
    needed = sorted({kernel_for(rows) for rows in batches})
    with ThreadPoolExecutor(len(needed)) as pool:
        cubins = dict(zip(needed, pool.map(partial(_cubin, sizes), needed), strict=True))
    launches = {
        most: CooperativeKernel(cubin, KERNEL, blocks=sizes.blocks, threads=sizes.threads, device=weights.device)
        for most, cubin in cubins.items()
    }
    codes = PersistentCodes(weights, sizes, launches)
    for most in needed:
        self_check(codes, min(most, batches[-1]), weights)
    return codes


def _cubin(sizes: Sizes, rows: int) -> bytes:
    return compile_cubin(CUDA / "persistent.cu", ["--gpu-architecture=sm_90a", "--std=c++17", *sizes.macros(rows)])
