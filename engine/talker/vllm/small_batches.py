"""Steps of small batches: the talker's layers in one kernel launch, instead of vLLM's layers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from engine.checkpoint.architecture import Transformer
from engine.kernels.nvrtc import KernelError
from engine.talker.fused.layers import MAX_ROWS, PAGE, LayerWeights, PagedCache
from engine.talker.fused.layers_loading import talker_layers
from engine.talker.fused.weights import rope
from engine.talker.gpu_step.graphs import captured, padded_size

_log = logging.getLogger(__name__)


class SmallBatches:
    """Runs steps in which each of up to ``max_rows`` utterances has one input row, as one CUDA graph per batch size.

    It reads the same buffers as vLLM's graphs and uses the same KV cache. Raises KernelError when the kernel does not
    support the checkpoint, the cache or the GPU.
    """

    @torch.inference_mode()
    def __init__(self, runner: Any, sizes: Sequence[int]) -> None:
        """runner: vLLM's V2 model runner, warmed up and captured. sizes: batch sizes in ascending order."""
        model, state, buffers = runner.model, runner.model_state, runner.input_buffers
        shape, device = model.architecture.talker.transformer, state.device
        self._sizes = [size for size in sizes if size <= MAX_ROWS]
        if not self._sizes:
            raise KernelError(f"no batch has at most {MAX_ROWS} rows")
        self.max_rows = self._sizes[-1]
        weights = _weights(model.model, shape, state.max_model_len, device)
        layers = talker_layers(weights, _cache(model.model.layers))
        self._layers = layers  # the graphs use its tensors
        positions, slots = buffers.positions[: self.max_rows], runner.block_tables.slot_mappings[0][: self.max_rows]
        pages = runner.block_tables.input_block_tables[0]
        positions.zero_()
        slots.fill_(-1)

        def run(size: int) -> Tensor:
            return layers(state.input_rows(state.prompt_rows[:size]), positions[:size], slots[:size], pages)

        pool = torch.cuda.graph_pool_handle()
        self._runs = {size: captured(partial(run, size), pool) for size in reversed(self._sizes)}

    def padded_size(self, count: int) -> int:
        """Return the batch size that runs for ``count`` rows, at most ``max_rows``."""
        return padded_size(self._sizes, count)

    def __call__(self, size: int) -> Tensor:
        """Run a batch of ``size`` rows, which must be a batch size. Return the hidden states [size, hidden].

        The next call overwrites them.
        """
        return self._runs[size]()


def small_batches(runner: Any, sizes: Sequence[int], *, reproducible: bool) -> SmallBatches | None:
    """Return what runs small batches, or None when vLLM's layers run them. Logs which, and why."""
    if reproducible:
        reason = "with talker.vllm.reproducible, every step has the same kernels"
    elif runner.device.type != "cuda":
        reason = "there is no GPU"
    else:
        try:
            steps = SmallBatches(runner, sizes)
        except KernelError as error:
            reason = str(error)
        else:
            _log.info("steps of up to %d rows run the talker's layers in one launch", steps.max_rows)
            return steps
    _log.info("vLLM runs the talker's layers in all steps: %s", reason)
    return None


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
