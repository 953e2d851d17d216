"""Steps that run the talker's layers in our own kernels and CUDA graphs, instead of vLLM's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from engine.checkpoint.architecture import Transformer
from engine.kernels.fallback import reason_for_fallback
from engine.kernels.nvrtc import KernelError
from engine.prompt.builder import NO_TOKEN
from engine.talker.fused.layers import MAX_PROMPT_ROWS, MAX_ROWS, PAGE, LayerWeights, PagedCache, prompt_sizes
from engine.talker.fused.layers_loading import row_layers, talker_layers
from engine.talker.fused.weights import rope
from engine.talker.gpu_step.graphs import PaddedGraphs

if TYPE_CHECKING:
    from engine.talker.vllm.state import TalkerState

_ONE_LAUNCH_SIZES = (1, 2, 4, 8, MAX_ROWS)
_SHORT_PROMPT_SIZES = (16, 24, 32, 40, 48, MAX_PROMPT_ROWS)
_ROW_SIZES = (1, 2, 4, 8, 16, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512)
NO_POSITION = -1
"""Cache slot of a padding row: its keys and values are not stored."""
Column = TypeVar("Column")
_log = logging.getLogger(__name__)

Layers = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""(input rows [n, hidden], positions [n], cache slots [n], pages [n, width]) -> hidden states [n, hidden]."""


class RowColumns(NamedTuple, Generic[Column]):
    """The input rows of a step, int64 [n] each, on the host or on the device.

    positions: of each row in its utterance. cache_slots: where its keys and values are stored, see ``RowLayers``.
    tables: the slots of all rows, which say whose pages they read. slots, text, codec: see ``StepInputs.rows``.
    """

    positions: Column
    cache_slots: Column
    tables: Column
    slots: Column
    text: Column
    codec: Column


@torch.inference_mode()
def layer_graphs(
    runner: Any, layers: Layers, block_table: Tensor, sizes: Sequence[int], *, prompts: bool = True
) -> PaddedGraphs:
    """Return graphs that run ``RowColumns`` through the layers, and write ``TalkerState.hidden``.

    They use vLLM's KV cache. runner: vLLM's V2 model runner. block_table: int32 [slots + 1, width], on the device.
    sizes: numbers of rows in ascending order. prompts: whether there may be prompt rows.
    """
    state: TalkerState = runner.model_state
    most = min(state.max_num_tokens, sizes[-1])

    def run(block: Tensor) -> Tensor:
        rows = RowColumns(*block)
        hidden = state.hidden[: len(rows.slots)]
        inputs = (
            state.inputs.rows(rows.slots, rows.text, rows.codec, state.voices[: len(hidden)])
            if prompts
            else state.inputs.decode_rows(rows.slots)
        )
        pages = block_table.index_select(0, rows.tables)
        return hidden.copy_(layers(inputs, rows.positions, rows.cache_slots, pages))

    padding = RowColumns(0, NO_POSITION, state.slots.padding_row, state.slots.padding_row, NO_TOKEN, NO_TOKEN)
    return PaddedGraphs(run, [size for size in sizes if size < most] + [most], padding, state.upload)


class OwnLayers(NamedTuple):
    """Steps that run without vLLM's layers; None where the kernels cannot be used.

    one_launch: for few utterances that decode. short_prompts: for few rows of prompts. Both occupy the GPU. rows: for
    any rows with short contexts.
    """

    one_launch: PaddedGraphs | None = None
    short_prompts: PaddedGraphs | None = None
    rows: PaddedGraphs | None = None


def own_layers(runner: Any, block_table: Tensor, *, reproducible: bool) -> OwnLayers:
    """Capture the graphs. Logs which steps they run, and why vLLM runs the others."""
    if reproducible or runner.device.type != "cuda":
        reason = "with talker.vllm.reproducible, every step has the same kernels" if reproducible else "there is no GPU"
        _log.info("vLLM runs the talker's layers in all steps: %s", reason)
        return OwnLayers()

    def graphs(
        kernels: Callable[[LayerWeights, PagedCache], Layers], sizes: Sequence[int], steps: str, *, prompts: bool
    ) -> PaddedGraphs | None:
        try:
            layers = kernels(weights, _cache(runner.model.model.layers))
            captured_graphs = layer_graphs(runner, layers, block_table, sizes, prompts=prompts)
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
    shape = model.architecture.talker.transformer
    weights = _weights(model.model, shape, state.max_model_len, state.device)
    prompt_layers = partial(talker_layers, sizes=prompt_sizes(shape))
    return OwnLayers(
        one_launch=graphs(talker_layers, _ONE_LAUNCH_SIZES, "small steps", prompts=False),
        short_prompts=graphs(prompt_layers, _SHORT_PROMPT_SIZES, "steps of short prompts", prompts=True),
        rows=graphs(row_layers, _ROW_SIZES, "steps with short contexts", prompts=True),
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
