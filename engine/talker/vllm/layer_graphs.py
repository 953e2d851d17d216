"""Steps that run the talker's layers in our own kernels and CUDA graphs, instead of vLLM's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from engine.checkpoint.architecture import Transformer
from engine.kernels.fallback import reason_for_fallback
from engine.kernels.nvrtc import KernelError
from engine.talker.fused.layers import MAX_ROWS, PAGE, LayerWeights, PagedCache
from engine.talker.fused.layers_loading import row_layers, talker_layers
from engine.talker.fused.weights import rope
from engine.talker.gpu_step.graphs import captured, padded_size

_ONE_LAUNCH_SIZES = (1, 2, 4, 8, MAX_ROWS)
_ROW_SIZES = (1, 2, 4, 8, 16, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512)
_log = logging.getLogger(__name__)

Layers = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""(input rows [n, hidden], positions [n], cache slots [n], pages [n, width]) -> hidden states [n, hidden]."""


class LayerGraphs:
    """Runs layers on steps of up to ``max_rows`` rows, padded to a captured number.

    It reads the same input buffers as vLLM's graphs, and uses the same KV cache. Without a GPU nothing is captured.
    """

    @torch.inference_mode()
    def __init__(self, runner: Any, layers: Layers, block_table: Tensor, sizes: Sequence[int]) -> None:
        """runner: vLLM's V2 model runner, warmed up and captured. block_table: int32 [slots + 1, width], on the device.

        sizes: numbers of rows in ascending order.
        """
        state, buffers = runner.model_state, runner.input_buffers
        most = min(state.max_num_tokens, sizes[-1])
        self._sizes = [size for size in sizes if size < most] + [most]
        self.max_rows = most
        self._layers = layers  # the graphs use its tensors
        positions, slots = buffers.positions[:most], runner.block_tables.slot_mappings[0][:most]
        positions.zero_()
        slots.fill_(-1)

        def run(size: int) -> Tensor:
            pages = block_table.index_select(0, state.table_rows[:size])
            return layers(state.input_rows(state.prompt_rows[:size]), positions[:size], slots[:size], pages)

        self._runs: dict[int, Callable[[], Tensor]] = {}
        pool = torch.cuda.graph_pool_handle() if state.device.type == "cuda" else None
        for size in reversed(self._sizes):  # largest first: the smaller graphs reuse its memory
            self._runs[size] = partial(run, size) if pool is None else captured(partial(run, size), pool)

    def padded_size(self, count: int) -> int:
        """Return the number of rows that runs for ``count`` rows, at most ``max_rows``."""
        return padded_size(self._sizes, count)

    def __call__(self, size: int) -> Tensor:
        """Run ``size`` rows, a captured number. Return the hidden states [size, hidden].

        The next call overwrites them.
        """
        return self._runs[size]()


class OwnLayers(NamedTuple):
    """Steps that run without vLLM's layers; None where the kernels cannot be used.

    one_launch: for few rows of one position each. rows: for any rows with short contexts.
    """

    one_launch: LayerGraphs | None = None
    rows: LayerGraphs | None = None


def own_layers(runner: Any, block_table: Tensor, *, reproducible: bool) -> OwnLayers:
    """Capture the graphs. Logs which steps they run, and why vLLM runs the others."""
    if reproducible or runner.device.type != "cuda":
        reason = "with talker.vllm.reproducible, every step has the same kernels" if reproducible else "there is no GPU"
        _log.info("vLLM runs the talker's layers in all steps: %s", reason)
        return OwnLayers()

    def graphs(
        kernels: Callable[[LayerWeights, PagedCache], Layers], sizes: Sequence[int], steps: str
    ) -> LayerGraphs | None:
        try:
            layers = kernels(weights, _cache(runner.model.model.layers))
            captured_graphs = LayerGraphs(runner, layers, block_table, sizes)
        except KernelError as error:
            reason = str(error)
        except Exception as error:
            reason = reason_for_fallback(error)
        else:
            _log.info("%s of up to %d rows run without vLLM's layers", steps, captured_graphs.max_rows)
            return captured_graphs
        _log.info("vLLM runs the talker's layers in %s: %s", steps, reason)
        return None

    model, state = runner.model, runner.model_state
    weights = _weights(model.model, model.architecture.talker.transformer, state.max_model_len, state.device)
    return OwnLayers(
        one_launch=graphs(talker_layers, _ONE_LAUNCH_SIZES, "small steps"),
        rows=graphs(row_layers, _ROW_SIZES, "steps with short contexts"),
    )


def _weights(model: Any, shape: Transformer, positions: int, device: torch.device) -> LayerWeights:
    """Return the weights of vLLM's Qwen3Model, with its own matrices."""
    layers = model.layers

    def stacked(norms: Sequence[Any]) -> Tensor:
        return torch.stack([norm.weight for norm in norms]).float()

    cos, sin = rope(shape, positions, device)
    return LayerWeights(
        shape=shape,
        matrices=[
            (
                layer.self_attn.qkv_proj.weight,
                layer.self_attn.o_proj.weight,
                layer.mlp.gate_up_proj.weight,
                layer.mlp.down_proj.weight,
            )
            for layer in layers
        ],
        input_norm=stacked([layer.input_layernorm for layer in layers]),
        post_norm=stacked([layer.post_attention_layernorm for layer in layers]),
        q_norm=stacked([layer.self_attn.q_norm for layer in layers]),
        k_norm=stacked([layer.self_attn.k_norm for layer in layers]),
        norm=model.norm.weight.float(),
        cos=cos,
        sin=sin,
    )


def _cache(layers: Sequence[Any]) -> PagedCache:
    """Return the keys and values of each layer [pages, PAGE, kv_heads, d] in vLLM's KV cache."""
    pairs = []
    for layer in layers:
        cache = layer.self_attn.attn.kv_cache
        cache = cache[0] if isinstance(cache, list) else cache
        halves = [dim for dim in (0, 1) if cache.dim() == 5 and cache.shape[dim] == 2 and cache.shape[2] == PAGE]
        if not halves:
            raise KernelError(f"vLLM's KV cache has an unknown shape: {tuple(cache.shape)}")
        pairs.append(cache.unbind(halves[-1]))
    return pairs
