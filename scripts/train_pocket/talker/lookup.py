"""An embedding lookup whose backward pass needs neither sorting nor synchronization with the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def lookup(table: Tensor, ids: Tensor) -> Tensor:
    """Return rows [*ids.shape, width] of ``table`` [n, width]."""
    apply: Callable[[Tensor, Tensor], Tensor] = _Lookup.apply
    return apply(table, ids.flatten()).view(*ids.shape, table.shape[1])


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, table: Tensor, ids: Tensor) -> Tensor:
        context.save_for_backward(ids)
        context.rows = len(table)
        return table.index_select(0, ids)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (ids,) = context.saved_tensors
        gradient = gradients[0]
        summed = torch.zeros(context.rows, gradient.shape[1], device=gradient.device)
        summed.index_add_(0, ids, gradient.float())
        return summed.to(gradient.dtype), None
