"""Compiles and loads the kernels of the talker's layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from engine.kernels.fallback import reason_for_fallback, require_gpu
from engine.kernels.nvrtc import CUDA as KERNELS
from engine.kernels.nvrtc import CooperativeKernel, KernelError, compile_cubin
from engine.kernels.tensor_maps import tensor_map
from engine.talker.fused.dispatch import OPTIONS, require_capability
from engine.talker.fused.layers import KERNEL, PAGE, LayerSizes, LayerWeights, PagedCache, TalkerLayers
from engine.talker.fused.persistent import CUDA

if TYPE_CHECKING:
    from engine.talker.fused.row_layers import RowLayers


def talker_layers(weights: LayerWeights, cache: PagedCache, sizes: LayerSizes | None = None) -> TalkerLayers:
    """Return the layers after a self-check, which stores nothing in the cache.

    sizes: default those of the model with the fastest division among blocks. Raises KernelError when this checkpoint or
    GPU is not supported or the kernel cannot be compiled, and EngineFailed when a launched kernel fails.
    """
    sizes = sizes or LayerSizes(weights.shape)
    reason = sizes.problem or _problem(weights, cache)
    if reason is not None:
        raise KernelError(reason)
    require_capability(weights.device, sizes.blocks)
    kernel = CooperativeKernel(
        layers_cubin(sizes), KERNEL, blocks=sizes.blocks, threads=sizes.threads, device=weights.device
    )
    layers = TalkerLayers(weights, cache, sizes, kernel, _encode)
    x = torch.zeros(sizes.rows, weights.shape.hidden, device=weights.device, dtype=torch.bfloat16)
    zeros = torch.zeros(sizes.rows, device=weights.device, dtype=torch.int64)
    layers(x, zeros, zeros - 1, zeros[:, None].int())
    require_gpu()
    return layers


def row_layers(weights: LayerWeights, cache: PagedCache) -> RowLayers:
    """Return the layers for rows with short contexts after a self-check, which stores nothing in the cache.

    Raises KernelError when this checkpoint or GPU is not supported or Triton cannot compile the kernels, and
    EngineFailed when a launched kernel fails.
    """
    reason = _problem(weights, cache)
    if reason is not None:
        raise KernelError(reason)
    require_capability(weights.device, blocks=1)
    try:
        from engine.talker.fused.row_layers import RowLayers

        layers = RowLayers(weights, cache)
        layers.self_check()
    except Exception as error:
        raise KernelError(reason_for_fallback(error)) from error
    return layers


def layers_cubin(sizes: LayerSizes) -> bytes:
    """Return the cubin of the layers' kernel, from the cache or compiled. Raises KernelError."""
    return compile_cubin(CUDA / "layers.cu", [*OPTIONS, *sizes.macros()], include=[KERNELS])


def _problem(weights: LayerWeights, cache: PagedCache) -> str | None:
    shape, page = weights.shape, (PAGE, weights.shape.kv_heads, weights.shape.head_dim)
    for name, number, size in (
        ("qkv", 0, ((shape.heads + 2 * shape.kv_heads) * shape.head_dim, shape.hidden)),
        ("out", 1, (shape.hidden, shape.heads * shape.head_dim)),
        ("gate_up", 2, (2 * shape.intermediate, shape.hidden)),
        ("down", 3, (shape.hidden, shape.intermediate)),
    ):
        for matrix in (layer[number] for layer in weights.matrices):
            if matrix.dtype != torch.bfloat16 or tuple(matrix.shape) != size or not matrix.is_contiguous():
                return (
                    f"the {name} matrices must be contiguous bfloat16 {size}, got {matrix.dtype} {tuple(matrix.shape)}"
                )
    strides = {each.stride() for pair in cache for each in pair}
    if len(strides) != 1 or next(iter(strides))[-1] != 1:
        return f"the KV caches of the layers must have the same strides and contiguous heads, got {strides}"
    for each in (each for pair in cache for each in pair):
        if each.dtype != torch.bfloat16 or tuple(each.shape[1:]) != page:
            return f"the KV cache must be bfloat16 in pages of {page}, got {each.dtype} {tuple(each.shape)}"
    return None


def _encode(matrix: Tensor, rows: int) -> bytes:
    return bytes(tensor_map(matrix, (rows, 64)))
