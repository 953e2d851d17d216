"""What draws a frame's codes on the device that is there."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch
from torch import Tensor

from engine.architecture import TalkerArchitecture
from engine.kernels.cuda_launch import CooperativeKernel
from engine.kernels.fallback import reason_for_plain
from engine.kernels.nvrtc import KernelError, compiled
from engine.models.code_predictor import CodePredictor
from engine.models.talker_rows import CodecSide
from engine.models.weights import Weights
from engine.talker.fused.persistent import CUDA, KERNEL, PersistentCodes
from engine.talker.fused.sizes import FASTEST_ROWS, VARIANTS, Sizes, published_sizes, variant_for
from engine.talker.fused.trial import try_out
from engine.talker.fused.weights import PredictorWeights, gather
from engine.talker.resident.buckets import batch_sizes
from engine.talker.resident.first_codes import DrawFirst, PlainFirstCodes
from engine.talker.resident.residual import Chance, PlainResidualCodes, ResidualCodes
from engine.talker.resident.row_draws import RowDraws
from engine.talker.resident.slots import Slots

_log = logging.getLogger(__name__)
_CAPABILITY = (9, 0)
"""What persistent.cu is compiled for: sm_90a."""


class BySize:
    """``few`` up to ``limit`` rows and ``many`` above. Each size's graph holds one of them."""

    def __init__(self, few: ResidualCodes, limit: int, many: ResidualCodes) -> None:
        self._few, self._limit, self._many = few, limit, many

    def __call__(self, hidden: Tensor, first: Tensor, draws: RowDraws, chance: Chance) -> tuple[Tensor, Tensor]:
        """See ``ResidualCodes``."""
        chosen = self._few if len(hidden) <= self._limit else self._many
        return chosen(hidden, first, draws, chance)


def first_codes(slots: Slots) -> DrawFirst:
    """What draws codebook 0: one launch where there are a GPU and a Triton that compiles."""
    if slots.drawn.device.type == "cuda" and _has_triton():
        try:
            from engine.talker.fused.first_codes import FusedFirstCodes

            fused = FusedFirstCodes(slots)
            fused.try_out()
        except Exception as error:
            _log.info("codebook 0 is drawn in plain torch: %s", reason_for_plain(error))
        else:
            return fused
    return PlainFirstCodes(slots)


def residual_codes(weights: Weights, talker: TalkerArchitecture, codec: CodecSide, rows: int) -> ResidualCodes:
    """What draws codebooks 1 to 15 of up to ``rows`` rows; the log says which.

    weights: the checkpoint's ``talker.code_predictor.``.
    """

    def plain(reason: str) -> ResidualCodes:
        _log.info("codebooks 1 to 15 are drawn in plain torch: %s", reason)
        return PlainResidualCodes(CodePredictor(weights, talker, code_tables=codec.tables, rows=rows), codec)

    reason = _why_plain(weights)
    return _fused(gather(weights, talker, codec), rows, plain) if reason is None else plain(reason)


def _why_plain(weights: Weights) -> str | None:
    if weights.device.type != "cuda":
        return "there is no GPU"
    if weights.dtype != torch.bfloat16:
        return "the weights are not bfloat16"
    return None if _has_triton() else "Triton is not installed"


def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def _fused(weights: PredictorWeights, rows: int, plain: Callable[[str], ResidualCodes]) -> ResidualCodes:
    try:
        few = one_launch(weights, min(rows, FASTEST_ROWS))
    except KernelError as error:
        _log.info("codebooks 1 to 15 are not drawn by one launch a frame: %s", error)
        return _many_rows(weights, rows, plain)
    _log.info("codebooks 1 to 15 are drawn by one launch a frame in batches of up to %d", FASTEST_ROWS)
    if rows <= FASTEST_ROWS:
        return few
    return BySize(few, FASTEST_ROWS, _many_rows(weights, rows, plain, above=FASTEST_ROWS))


def _many_rows(
    weights: PredictorWeights, rows: int, plain: Callable[[str], ResidualCodes], above: int = 0
) -> ResidualCodes:
    """For batches of more than ``above`` rows: by Triton's launches, every size of which runs once.

    Where they cannot, what ``plain`` makes of the reason.
    """
    try:
        from engine.talker.fused.triton_codes import TritonCodes, refusal

        reason = refusal(weights)
        if reason is None:
            codes = TritonCodes(weights, rows)
            for size in (each for each in batch_sizes(rows) if each > above):
                try_out(codes, size, weights)
            return codes
    except Exception as error:
        reason = reason_for_plain(error)
    return plain(reason)


def one_launch(weights: PredictorWeights, rows: int) -> PersistentCodes:
    """Compiled for batches of up to ``rows``, loaded and launched once.

    Raises KernelError where that cannot be, and EngineFailed where a launched kernel fails.
    """
    sizes = published_sizes(weights)
    if sizes is None:
        raise KernelError("the checkpoint's code predictor has not the published sizes")
    card = torch.cuda.get_device_properties(weights.device)
    if (card.major, card.minor) != _CAPABILITY or card.multi_processor_count < sizes.blocks:
        raise KernelError(f"{card.name} is no GPU of compute capability 9.0 with {sizes.blocks} multiprocessors")
    needed = sorted({variant_for(min(size, rows)) for size in batch_sizes(rows)})
    with ThreadPoolExecutor(len(needed)) as pool:
        cubins = dict(zip(needed, pool.map(partial(_cubin, sizes), needed), strict=True))
    launches = {
        name: CooperativeKernel(cubin, KERNEL, blocks=sizes.blocks, threads=sizes.threads, device=weights.device)
        for name, cubin in cubins.items()
    }
    codes = PersistentCodes(weights, sizes, launches)
    for name in needed:
        try_out(codes, min(VARIANTS[name].rows, rows), weights)
    return codes


def _cubin(sizes: Sizes, variant: str) -> bytes:
    return compiled(
        CUDA / "persistent.cu", ["--gpu-architecture=sm_90a", "--std=c++17", *sizes.macros(VARIANTS[variant])]
    )
