"""Measures the errors of the code predictor's logits in bfloat16, and with fp8 weights.

    python -m benchmarks.gpu.predictor_errors [CHECKPOINT] [--rows 130] [--width 2048] [--device cpu]

Uses teacher forcing: every implementation gets the codes sampled in float32, so all logits depend on the same codes.
``float32`` is plain torch (``engine.talker.fused.reference``). So are ``bfloat16``, the reference for the kernels used
in serving, and ``fp8``, which is bfloat16 with the matrices of ``talker.vllm.fp8_predictor``. On a GPU ``python -m
benchmarks.gpu.code_predictor CHECKPOINT --errors`` adds the kernels themselves. Without CHECKPOINT the weights are
random, of the published sizes, and their logits have a spread like a trained model's; those of a random CHECKPOINT do
not.

``of all`` is the norm of the error relative to the norm of the logits. ``median`` and ``largest`` are errors of single
logits relative to the root mean square of all logits. ``likeliest`` is the share of codes whose argmax is that of
float32.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import torch
from torch import Tensor

from engine.checkpoint.architecture import TalkerArchitecture
from engine.checkpoint.folder import Checkpoint, open_checkpoint
from engine.models.talker import CodecSide
from engine.models.weights import Weights
from engine.talker.fused.fp8 import round_to_fp8
from engine.talker.fused.reference import ReferencePredictor
from engine.talker.fused.weights import PredictorWeights, gather
from tests.support.code_predictors import PUBLISHED, predictor_inputs, random_weights


class Errors(NamedTuple):
    """The errors that the module docstring describes."""

    of_all: float
    median: float
    largest: float
    likeliest: float

    def __str__(self) -> str:
        return f"{self.of_all:>10.2e}{self.median:>10.2e}{self.largest:>10.2e}{self.likeliest:>10.1%}"


HEADING = f"{'logits':20s}{'of all':>10s}{'median':>10s}{'largest':>10s}{'likeliest':>10s}"


def errors_of(logits: Tensor, exact: Tensor) -> Errors:
    """Return the errors of logits [rows, codebooks - 1, vocab] relative to those in float32."""
    error, scale = (logits.double() - exact.double()).abs(), exact.double().square().mean().sqrt()
    equal = (logits.argmax(-1) == exact.argmax(-1)).double().mean()
    of_all = error.square().mean().sqrt() / scale
    return Errors(of_all.item(), (error.median() / scale).item(), (error.max() / scale).item(), equal.item())


class Float32Reference:
    """The codes and logits of ``rows`` rows in float32: the reference for every implementation."""

    def __init__(self, weights: PredictorWeights, rows: int) -> None:
        self._rows = rows
        self._inputs = predictor_inputs(weights, rows, seed=rows, mixed=True)
        self._inputs["hidden"] = self._inputs["hidden"].bfloat16().float()  # exact in every dtype
        self.codes, _, self.logits = ReferencePredictor(weights, rows).run(**self._inputs)

    def inputs(self, dtype: torch.dtype) -> dict[str, Any]:
        """Return the arguments for an implementation: the inputs with states in ``dtype``, and the forced codes."""
        return self._inputs | {"hidden": self._inputs["hidden"].to(dtype), "forced": self.codes}

    def reference_errors(self, weights: PredictorWeights) -> Errors:
        """Return the errors of plain torch (the reference implementation) with ``weights``."""
        return errors_of(ReferencePredictor(weights, self._rows).run(**self.inputs(weights.dtype))[2], self.logits)


def predictor_parts(
    checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype
) -> tuple[Weights, TalkerArchitecture, CodecSide]:
    """Return the parts of the checkpoint's code predictor, as arguments for ``gather``."""
    tensors = {name: each for name, each in checkpoint.tensors("talker.").items() if "text" not in name}
    weights, talker = Weights(tensors, device, dtype), checkpoint.model.talker
    return weights.under("code_predictor."), talker, CodecSide(weights, talker)


def checkpoint_weights(checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype) -> PredictorWeights:
    """Return the code predictor's weights of a checkpoint in ``dtype``."""
    return gather(*predictor_parts(checkpoint, device, dtype))


def random_published_weights(width: int, device: torch.device, dtype: torch.dtype) -> PredictorWeights:
    """Return random weights of the published sizes. width: hidden size of the talker."""
    return random_weights(PUBLISHED, vocab=2048, codebooks=16, talker_hidden=width, dtype=dtype, device=device)


def table_row(name: str, errors: Errors) -> str:
    """Return a row of the table."""
    return f"{name:20s}{errors}"


@torch.inference_mode()
def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", nargs="?")
    parser.add_argument("--rows", type=int, default=130)
    parser.add_argument("--width", type=int, default=2048, help="hidden size of the talker, without CHECKPOINT")
    parser.add_argument("--device", type=torch.device, default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    checkpoint = open_checkpoint(args.checkpoint) if args.checkpoint else None

    def weights(dtype: torch.dtype) -> PredictorWeights:
        if checkpoint is None:
            return random_published_weights(args.width, args.device, dtype)
        return checkpoint_weights(checkpoint, args.device, dtype)

    reference, bfloat16 = Float32Reference(weights(torch.float32), args.rows), weights(torch.bfloat16)
    print(HEADING)
    print(table_row("bfloat16", reference.reference_errors(bfloat16)), flush=True)
    print(table_row("fp8", reference.reference_errors(round_to_fp8(bfloat16))))


if __name__ == "__main__":
    main()
