"""The talker's kernels, to be compiled ahead of their use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from engine.checkpoint.architecture import TalkerArchitecture, Transformer
from engine.kernels.triton_launch import Launch
from engine.talker.fused import batched
from engine.talker.fused.dispatch import batched_cubin
from engine.talker.fused.layers import PAGE, LayerSizes, LayerWeights, PagedCache, prompt_sizes
from engine.talker.fused.layers_loading import layers_cubin
from engine.talker.fused.persistent import published_sizes
from engine.talker.gpu_step.slots import Slots

_CPU = torch.device("cpu")
"""Device of tensors without values. The first arithmetic with meta tensors imports torch._dynamo, for seconds."""


def talker_compilations(
    talker: TalkerArchitecture, batches: Sequence[int], *, layers: bool
) -> list[Callable[[], bytes]]:
    """Return functions that compile the kernels of the code predictor and of the layers into the cache.

    batches: all batch sizes in rows, in ascending order. layers: whether the layers' kernels are used. The list is
    shorter for a talker whose sizes a kernel does not support.
    """
    compilations: list[Callable[[], bytes]] = []
    predictor = talker.predictor
    sizes = published_sizes(predictor.transformer, predictor.vocab, talker.codebooks, talker.transformer.hidden)
    if sizes is not None:
        fitting = [size for size in batches if size <= batched.MAX_ROWS]
        compilations += [partial(batched_cubin, each) for each in batched.kernels_for(sizes, fitting)]
    if layers:
        both = (LayerSizes(talker.transformer), prompt_sizes(talker.transformer))
        compilations += [partial(layers_cubin, each) for each in both if each.problem is None]
    return compilations


@torch.inference_mode()
def compile_triton_kernels(talker: TalkerArchitecture, slots: int, launch: Launch, *, layers: bool) -> None:
    """Compile the Triton kernels that sample codebook 0 for ``slots`` slots and, with ``layers``, those of the layers.

    Uses tensors without values, on the CPU. launch: compiles a kernel. Imports Triton.
    """
    from engine.talker.fused.row_layers import RowLayers
    from engine.talker.fused.triton import FusedFirstCodes

    state = Slots(slots, 1, talker, text_pad=0, device=_CPU, dtype=torch.bfloat16)
    FusedFirstCodes(state, launch).run_padding()
    if layers:
        RowLayers(*_empty_layer(talker.transformer), launch).run_padding()


def _empty_layer(shape: Transformer) -> tuple[LayerWeights, PagedCache]:
    """Return the weights of one layer, and a cache of one page, without values."""

    def matrix(*size: int) -> Tensor:
        return torch.empty(size, device=_CPU, dtype=torch.bfloat16)

    def vector(*size: int) -> Tensor:
        return torch.empty(size, device=_CPU)

    hidden, inner, attended = shape.hidden, shape.intermediate, shape.heads * shape.head_dim
    weights = LayerWeights(
        shape=shape,
        matrices=[
            (
                matrix(attended + 2 * shape.kv_heads * shape.head_dim, hidden),
                matrix(hidden, attended),
                matrix(2 * inner, hidden),
                matrix(hidden, inner),
            )
        ],
        input_norm=vector(1, hidden),
        post_norm=vector(1, hidden),
        q_norm=vector(1, shape.head_dim),
        k_norm=vector(1, shape.head_dim),
        norm=vector(hidden),
        cos=vector(1, shape.head_dim // 2),
        sin=vector(1, shape.head_dim // 2),
    )
    page = (1, PAGE, shape.kv_heads, shape.head_dim)
    return weights, [(matrix(*page), matrix(*page))]
