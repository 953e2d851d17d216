"""Distill-MOS: predicts a mean opinion score from 1 to 5 (Stahl and Gamper 2025, arXiv 2502.05356)."""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
from types import ModuleType

import torch

from scripts.judge.sound import Samples


class DistillMos:
    """Version 7, with the weights from its package."""

    def __init__(self) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            self._model = _package().ConvTransformerSQAModel().eval()

    @torch.inference_mode()
    def __call__(self, samples: Samples) -> float:
        """Return the predicted score of samples [n] at 16 kHz."""
        return float(self._model(torch.from_numpy(samples.copy())[None]))


def _package() -> ModuleType:
    """Import the package. It imports torchaudio only for its command line, so an empty module replaces it."""
    stand_in = sys.modules.setdefault("torchaudio", ModuleType("torchaudio"))
    try:
        package = importlib.import_module("distillmos")
    finally:
        if not hasattr(stand_in, "__file__"):
            del sys.modules["torchaudio"]
    return package
