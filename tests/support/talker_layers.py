"""Talker layers with random weights, and steps for them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from engine.checkpoint.architecture import Transformer
from engine.talker.fused.layers import PAGE, LayerWeights, PagedCache
from engine.talker.fused.weights import rope

PUBLISHED = {
    "1.7B": Transformer(
        hidden=2048, intermediate=6144, layers=28, heads=16, kv_heads=8, head_dim=128, rope_theta=1e6, eps=1e-6
    ),
    "0.6B": Transformer(
        hidden=1024, intermediate=3072, layers=28, heads=16, kv_heads=8, head_dim=128, rope_theta=1e6, eps=1e-6
    ),
}


def random_layers(shape: Transformer, positions: int, device: torch.device) -> LayerWeights:
    """Return random weights, the same at every call. positions: rows of cos and sin."""
    generator = torch.Generator(device).manual_seed(20261125)

    def matrix(rows: int, columns: int) -> Tensor:
        values = torch.randn(rows, columns, generator=generator, device=device)
        return values.mul_(columns**-0.5).bfloat16()

    def norms(*size: int) -> Tensor:
        return torch.randn(size, generator=generator, device=device).mul_(0.1).add_(1).bfloat16().float()

    attended = shape.heads * shape.head_dim
    matrices = [
        (
            matrix(attended + 2 * shape.kv_heads * shape.head_dim, shape.hidden),
            matrix(shape.hidden, attended),
            matrix(2 * shape.intermediate, shape.hidden),
            matrix(shape.hidden, shape.intermediate),
        )
        for _ in range(shape.layers)
    ]
    cos, sin = rope(shape, positions, device)
    return LayerWeights(
        shape=shape,
        matrices=matrices,
        input_norm=norms(shape.layers, shape.hidden),
        post_norm=norms(shape.layers, shape.hidden),
        q_norm=norms(shape.layers, shape.head_dim),
        k_norm=norms(shape.layers, shape.head_dim),
        norm=norms(shape.hidden),
        cos=cos,
        sin=sin,
    )


def in_float32(weights: LayerWeights) -> LayerWeights:
    """Return the same values with matrices in float32."""
    names = [name for name in LayerWeights.__slots__ if name != "matrices"]
    matrices = [tuple(each.float() for each in layer) for layer in weights.matrices]
    return LayerWeights(matrices=matrices, **{name: getattr(weights, name) for name in names})  # type: ignore[arg-type]


def random_cache(
    shape: Transformer, pages: int, device: torch.device, dtype: torch.dtype = torch.bfloat16
) -> PagedCache:
    """Return a cache with random keys and values, in vLLM's layout: keys and values of a page are neighbors."""
    generator = torch.Generator(device).manual_seed(7)
    size = (pages, 2, PAGE, shape.kv_heads, shape.head_dim)
    layers = [torch.randn(size, generator=generator, device=device).bfloat16().to(dtype) for _ in range(shape.layers)]
    return [tuple(layer.unbind(1)) for layer in layers]  # type: ignore[misc]  # of two


def copied(cache: PagedCache, dtype: torch.dtype = torch.bfloat16) -> PagedCache:
    """Return a cache with the same values and layout."""
    both = [torch.stack((keys, values), 1).to(dtype) for keys, values in cache]
    return [tuple(each.unbind(1)) for each in both]  # type: ignore[misc]


class Step(NamedTuple):
    """Arguments of ``TalkerLayers``, except x."""

    positions: Tensor
    slots: Tensor
    pages: Tensor


def step_of(positions: list[int | None], pages: int, device: torch.device) -> Step:
    """Return the arguments for rows at ``positions``, each with random pages of its own; None: a padding row."""
    generator = torch.Generator().manual_seed(len(positions))
    order = (torch.randperm(pages - 1, generator=generator) + 1).tolist()
    width = max(each or 0 for each in positions) // PAGE + 2
    table, slots = torch.zeros(len(positions), width, dtype=torch.int32), []
    for row, position in enumerate(positions):
        if position is None:
            slots.append(-1)
            continue
        for page in range(position // PAGE + 1):
            table[row, page] = order.pop()
        slots.append(int(table[row, position // PAGE]) * PAGE + position % PAGE)
    at = torch.tensor([each or 0 for each in positions])
    return Step(at.to(device), torch.tensor(slots).to(device), table.to(device))


def step_with_prompt(first: int, rows: int, others: list[int | None], pages: int, device: torch.device) -> Step:
    """Return the arguments for ``rows`` rows of one utterance from position ``first`` on, and one row of each other."""
    one = step_of([first + rows - 1, *others], pages, device)
    at = torch.arange(first, first + rows, device=device)
    return Step(
        torch.cat((at, one.positions[1:])),
        torch.cat((one.pages[0, at // PAGE] * PAGE + at % PAGE, one.slots[1:])),
        torch.cat((one.pages[:1].expand(rows, -1), one.pages[1:])).contiguous(),
    )
