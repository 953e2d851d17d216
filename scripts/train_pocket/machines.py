"""One process a GPU: who we are, and gradients and figures that all share."""

from __future__ import annotations

import os
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn


def join(device: str) -> torch.device:
    """Join the other processes that torchrun started, if it did. device: "cuda" or "cpu"."""
    if "RANK" in os.environ:
        dist.init_process_group("nccl" if device == "cuda" else "gloo")
    if device != "cuda":
        return torch.device(device)
    own = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(own)
    return own


def rank() -> int:
    """This process's number; the first saves and prints."""
    return dist.get_rank() if dist.is_initialized() else 0


def world() -> int:
    """How many processes there are."""
    return dist.get_world_size() if dist.is_initialized() else 1


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """The mean over the processes, in one exchange."""
    if world() == 1:
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    flat /= world()
    sizes = [gradient.numel() for gradient in gradients]
    for gradient, part in zip(gradients, flat.split(sizes), strict=True):
        gradient.copy_(part.view_as(gradient))


def same_start(modules: Iterable[nn.Module]) -> None:
    """The first process's weights for all."""
    if world() == 1:
        return
    for module in modules:
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor.data, 0)


def first_ones(value: float) -> float:
    """The first process's value, for all."""
    if world() == 1:
        return value
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    shared = torch.tensor(value, dtype=torch.float64, device=device)
    dist.broadcast(shared, 0)
    return float(shared.item())
