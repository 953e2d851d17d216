"""The first call of what draws codebooks 1 to 15: it shows whether its kernels can be had here."""

from __future__ import annotations

import torch

from engine.kernels.fallback import require_gpu
from engine.talker.fused.weights import PredictorWeights
from engine.talker.resident.residual import Chance, ResidualCodes
from engine.talker.resident.row_draws import RowDraws


def try_out(codes: ResidualCodes, rows: int, weights: PredictorWeights) -> None:
    """One frame of ``rows`` rows of zeros.

    Raises what ``codes`` does where kernels cannot be compiled or launched, and EngineFailed where one fails while it
    runs: nothing can take its place in this process then.
    """
    zeros = torch.zeros(rows, device=weights.device, dtype=torch.int64)
    ones = torch.ones(rows, device=weights.device, dtype=torch.float32)
    hidden = torch.zeros(rows, weights.talker_hidden, device=weights.device, dtype=weights.dtype)
    codes(hidden, zeros, RowDraws(ones, zeros, ones), Chance(zeros, zeros))
    require_gpu()
