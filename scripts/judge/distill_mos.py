"""Distill-MOS: the mean opinion score, 1 to 5, that listeners would give (Stahl and Gamper 2025, arXiv 2502.05356)."""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
from types import ModuleType

import torch

from scripts.judge.sound import Samples


class DistillMos:
    """Version 7, with the weights that its package carries."""

    def __init__(self) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            self._model = _package().ConvTransformerSQAModel().eval()

    @torch.inference_mode()
    def __call__(self, samples: Samples) -> float:
        """The predicted score of samples [n] at 16 kHz."""
        return float(self._model(torch.from_numpy(samples.copy())[None]))


def _package() -> ModuleType:
    """The package imports torchaudio, which only its command line uses: an empty module stands in for it."""
    stand_in = sys.modules.setdefault("torchaudio", ModuleType("torchaudio"))
    try:
        package = importlib.import_module("distillmos")
    finally:
        if not hasattr(stand_in, "__file__"):
            del sys.modules["torchaudio"]
    return package
