"""How far the code predictor's logits are off in bfloat16, and with weights of eight bits.

    python -m benchmarks.gpu.predictor_errors [CHECKPOINT] [--rows 130] [--width 2048] [--device cpu]

Teacher-forced: every form gets the codes that float32 draws, so each logit follows from the same codes. ``float32``
is plain torch (``engine.talker.fused.reference``), and so are ``bfloat16``, which is what the kernels that serve are
held to, and ``fp8``: that with the matrices of ``talker.vllm.fp8_predictor``. On a GPU ``python -m
benchmarks.gpu.code_predictor CHECKPOINT --errors`` adds the kernels themselves. Without CHECKPOINT the weights are
random, of the published sizes, and their logits are spread like a trained model's; a random CHECKPOINT's are not.

``of all`` is the norm of the error by the norm of the logits, ``median`` and ``largest`` the error of one logit by the
mean square root of them all; ``likeliest``: the share of draws whose likeliest code is float32's.
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
from engine.talker.fused.fp8 import rounded
from engine.talker.fused.reference import ReferencePredictor
from engine.talker.fused.weights import PredictorWeights, gather
from tests.predictors import PUBLISHED, question, random_weights


class Errors(NamedTuple):
    """See the module's docstring."""

    of_all: float
    median: float
    largest: float
    likeliest: float

    def __str__(self) -> str:
        return f"{self.of_all:>10.2e}{self.median:>10.2e}{self.largest:>10.2e}{self.likeliest:>10.1%}"


HEADING = f"{'logits':20s}{'of all':>10s}{'median':>10s}{'largest':>10s}{'likeliest':>10s}"


def compared(logits: Tensor, exact: Tensor) -> Errors:
    """Logits [rows, books - 1, vocab] against those in float32."""
    error, scale = (logits.double() - exact.double()).abs(), exact.double().square().mean().sqrt()
    same = (logits.argmax(-1) == exact.argmax(-1)).double().mean()
    of_all = error.square().mean().sqrt() / scale
    return Errors(of_all.item(), (error.median() / scale).item(), (error.max() / scale).item(), same.item())


class Truth:
    """The codes of ``rows`` rows and their logits in float32: what every form is held to."""

    def __init__(self, weights: PredictorWeights, rows: int) -> None:
        self._rows = rows
        self._asked = question(weights, rows, seed=rows, mixed=True)
        self._asked["hidden"] = self._asked["hidden"].bfloat16().float()  # so that no form has to round it
        self.codes, _, self.logits = ReferencePredictor(weights, rows).run(**self._asked)

    def asked(self, dtype: torch.dtype) -> dict[str, Any]:
        """What a form is called with: the question with the states in its type, and the codes to be taken."""
        return self._asked | {"hidden": self._asked["hidden"].to(dtype), "forced": self.codes}

    def twin(self, weights: PredictorWeights) -> Errors:
        """Those of plain torch."""
        return compared(ReferencePredictor(weights, self._rows).run(**self.asked(weights.dtype))[2], self.logits)


def parts(
    checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype
) -> tuple[Weights, TalkerArchitecture, CodecSide]:
    """What its code predictor is made of, as ``gather`` takes it."""
    tensors = {name: each for name, each in checkpoint.tensors("talker.").items() if "text" not in name}
    weights, talker = Weights(tensors, device, dtype), checkpoint.model.talker
    return weights.under("code_predictor."), talker, CodecSide(weights, talker)


def of_checkpoint(checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype) -> PredictorWeights:
    """The code predictor's weights in ``dtype``."""
    return gather(*parts(checkpoint, device, dtype))


def of_nothing(width: int, device: torch.device, dtype: torch.dtype) -> PredictorWeights:
    """Random ones of the published sizes; width: of the talker."""
    return random_weights(PUBLISHED, vocab=2048, books=16, talker_hidden=width, dtype=dtype, device=device)


def told(name: str, errors: Errors) -> str:
    """A line of the table."""
    return f"{name:20s}{errors}"


@torch.inference_mode()
def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", nargs="?")
    parser.add_argument("--rows", type=int, default=130)
    parser.add_argument("--width", type=int, default=2048, help="of the talker, where there is no checkpoint")
    parser.add_argument("--device", type=torch.device, default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    checkpoint = open_checkpoint(given.checkpoint) if given.checkpoint else None

    def weights(dtype: torch.dtype) -> PredictorWeights:
        if checkpoint is None:
            return of_nothing(given.width, given.device, dtype)
        return of_checkpoint(checkpoint, given.device, dtype)

    truth, served = Truth(weights(torch.float32), given.rows), weights(torch.bfloat16)
    print(HEADING)
    print(told("bfloat16", truth.twin(served)), flush=True)
    print(told("fp8", truth.twin(rounded(served))))


if __name__ == "__main__":
    main()
