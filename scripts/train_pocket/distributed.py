"""Data-parallel training with one process per GPU: ranks, gradient averaging and broadcasts."""

from __future__ import annotations

import os
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn


def join_processes(device: str) -> torch.device:
    """Initialize the process group if torchrun started this process, and return its device. device: "cuda" or "cpu"."""
    if "RANK" in os.environ:
        dist.init_process_group("nccl" if device == "cuda" else "gloo")
    if device != "cuda":
        return torch.device(device)
    gpu = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(gpu)
    return gpu


def rank() -> int:
    """Return the rank of this process. Rank 0 saves and prints."""
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    """Return the number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Average the gradients over all processes, in one all-reduce."""
    if world_size() == 1:
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    flat /= world_size()
    sizes = [gradient.numel() for gradient in gradients]
    for gradient, part in zip(gradients, flat.split(sizes), strict=True):
        gradient.copy_(part.view_as(gradient))


def broadcast_weights(modules: Iterable[nn.Module]) -> None:
    """Copy the weights of rank 0 to all processes."""
    if world_size() == 1:
        return
    for module in modules:
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor.data, 0)


def broadcast_value(value: float) -> float:
    """Return the value of rank 0 in all processes."""
    if world_size() == 1:
        return value
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    shared = torch.tensor(value, dtype=torch.float64, device=device)
    dist.broadcast(shared, 0)
    return float(shared.item())
