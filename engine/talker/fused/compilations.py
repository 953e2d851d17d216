"""The talker's CUDA kernels, to be compiled ahead of their use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from engine.checkpoint.architecture import TalkerArchitecture
from engine.talker.fused import batched
from engine.talker.fused.dispatch import batched_cubin
from engine.talker.fused.layers import LayerSizes
from engine.talker.fused.layers_loading import layers_cubin
from engine.talker.fused.persistent import published_sizes


def talker_compilations(
    talker: TalkerArchitecture, batches: Sequence[int], *, layers: bool
) -> list[Callable[[], bytes]]:
    """Return functions that compile the kernels of the code predictor and of the layers into the cache.

    batches: all batch sizes in rows, in ascending order. layers: whether the layers' kernel is used. The list is
    shorter for a talker whose sizes a kernel does not support.
    """
    compilations: list[Callable[[], bytes]] = []
    predictor = talker.predictor
    sizes = published_sizes(predictor.transformer, predictor.vocab, talker.codebooks, talker.transformer.hidden)
    if sizes is not None:
        fitting = [size for size in batches if size <= batched.MAX_ROWS]
        compilations += [partial(batched_cubin, each) for each in batched.kernels_for(sizes, fitting)]
    layer_sizes = LayerSizes(talker.transformer)
    if layers and layer_sizes.problem is None:
        compilations.append(partial(layers_cubin, layer_sizes))
    return compilations
