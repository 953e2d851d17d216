"""Muon for the matrices of the layers, AdamW for all other parameters."""

from __future__ import annotations

import torch
from torch import nn
from torch.optim import Optimizer

from scripts.train_pocket.config import TalkerTraining

_BETAS = (0.9, 0.95)


def optimizers(model: nn.Module, settings: TalkerTraining) -> list[Optimizer]:
    """Return both optimizers. They share the learning rate: Muon's updates have AdamW's RMS (Moonlight, 2502.16982).

    Embeddings, norms and biases have no weight decay.
    """
    named = dict(model.named_parameters())
    inner = {name for name, each in named.items() if ".layers." in name and each.dim() == 2}
    outer = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.Linear)} - inner
    groups = [
        {"params": [named[name] for name in sorted(outer)], "weight_decay": settings.weight_decay},
        {"params": [each for name, each in named.items() if name not in inner | outer], "weight_decay": 0.0},
    ]
    rate = settings.learning_rate
    muon = torch.optim.Muon(
        [named[name] for name in sorted(inner)],
        lr=rate,
        weight_decay=settings.weight_decay,
        adjust_lr_fn="match_rms_adamw",
    )
    fused = next(model.parameters()).device.type == "cuda"
    return [muon, torch.optim.AdamW(groups, lr=rate, betas=_BETAS, fused=fused)]
