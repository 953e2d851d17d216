"""Loads the talker on vLLM, and runs steps of it."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from vllm.engine.arg_utils import EngineArgs
from vllm.v1.engine.core import EngineCore
from vllm.v1.executor.abstract import Executor

from engine.checkpoint.architecture import TalkerArchitecture
from engine.checkpoint.folder import Checkpoint
from engine.config import TalkerConfig
from engine.device.memory import CacheRequirements, GpuMemory, out_of_memory
from engine.errors import SetupError
from engine.talker.fused.persistent import MAX_ROWS
from engine.talker.gpu_step.graphs import batch_sizes
from engine.talker.gpu_step.inputs import UtteranceState
from engine.talker.vllm import model as loader
from engine.talker.vllm.layer_graphs import own_layers
from engine.talker.vllm.model import BATCHES, FP8
from engine.talker.vllm.scheduler import Batch, CacheSize, Scheduler
from engine.talker.vllm.step_runner import PendingCodes, StepRunner

_PREFILL_ROWS = {False: 2048, True: 256}
"""Default number of prefill rows per step. True: ``reproducible``, where every step is padded to the same length."""
_BLOCK_SIZE = {"cuda": 16, "cpu": 32}
"""Positions per KV cache block, by device type."""
_FLASH_ATTENTION_3_CAPABILITY = 9
"""Major compute capability of the GPUs that FlashAttention 3 supports. It does not support float32."""
_SAME_PLAN_HEAD_DIMS = range(65, 129)
"""Head sizes for which FlashAttention 3 plans single-row and multi-row queries of a step in the same way."""
_STEP_ROWS = (16, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1024, 1280, 1536, 2048)
"""Steps with prefill are padded to one of these row counts, so that a captured CUDA graph can run them."""


class TalkerCore:
    """vLLM's model, attention, KV cache and CUDA graphs. Not thread-safe: one thread makes all calls.

    memory: determines the size of the KV cache; without it the cache has one context per slot. Raises SetupError when
    the device has no room for the cache, or does not support ``reproducible`` or ``fp8_predictor``.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        config: TalkerConfig,
        device: torch.device,
        dtype: torch.dtype,
        memory: GpuMemory | None = None,
    ) -> None:
        architecture = checkpoint.model.talker
        need = _cache_need(architecture, config, device, dtype)
        arguments = _arguments(need, architecture.transformer.head_dim, config, device, dtype)
        loader.register(checkpoint)
        with tempfile.TemporaryDirectory() as folder:
            loader.write_config(Path(folder), architecture, config.context + 1, dtype)
            engine = EngineArgs(model=folder, **arguments).create_engine_config()
        executor = _executor(Executor.get_class(engine), memory, need)
        try:
            self._engine = EngineCore(engine, executor, log_stats=False)
            self._prepare(arguments["max_num_batched_tokens"], need.block_size, config)
        except torch.OutOfMemoryError as error:
            raise out_of_memory("the talker", "talker.slots or talker.context", error) from error

    def _prepare(self, max_rows: int, block_size: int, config: TalkerConfig) -> None:
        """Set up the scheduler and the step runner for the loaded model."""
        self.model_runner: Any = self._engine.model_executor.driver_worker.worker.model_runner
        """vLLM's V2 model runner."""
        blocks = self.model_runner.kv_cache_config.num_blocks
        self.scheduler = Scheduler(config.slots, max_rows, CacheSize(blocks, block_size, config.context))
        self._inputs = self.model_runner.model_state.inputs
        self._steps = StepRunner(self.model_runner, self.scheduler.block_table, block_size)
        self._steps.own_layers = own_layers(
            self.model_runner, self._steps.device_table, reproducible=config.vllm.reproducible
        )

    def join(self, slot: int, utterance: UtteranceState) -> None:
        """Assign a slot to an utterance, which takes part from the next step on."""
        self._inputs.join(slot, utterance)

    def leave(self, slot: int) -> None:
        """Free a slot."""
        self._inputs.leave(slot)

    def launch(self, batch: Batch) -> PendingCodes:
        """Start a step and return its codes, without waiting for them."""
        return self._steps.launch(batch)

    def close(self) -> None:
        """Shut vLLM down and free the device memory."""
        self._engine.shutdown()


def _arguments(
    need: CacheRequirements, head_dim: int, config: TalkerConfig, device: torch.device, dtype: torch.dtype
) -> dict[str, Any]:
    """Return the arguments of vLLM's ``EngineArgs``."""
    reproducible, mode = config.vllm.reproducible, _graph_mode(device, dtype, head_dim)
    if reproducible and mode != "FULL":
        raise SetupError(
            "talker.vllm.reproducible needs FlashAttention 3: bfloat16, a GPU of compute capability 9.0 and a head_dim "
            f"between {_SAME_PLAN_HEAD_DIMS[0]} and {_SAME_PLAN_HEAD_DIMS[-1]}, got {_name(dtype)} and a head_dim of "
            f"{head_dim}"
        )
    if reproducible and config.vllm.fp8_predictor and config.slots > MAX_ROWS:
        raise SetupError(
            f"talker.vllm.reproducible makes every frame for all {config.slots} slots, but "
            f"talker.vllm.fp8_predictor supports at most {MAX_ROWS} rows: lower talker.slots to {MAX_ROWS}"
        )
    max_tokens = config.slots + (config.prefill_chunk or _PREFILL_ROWS[reproducible])
    batches = batch_sizes(config.slots, single=reproducible)
    return {
        "dtype": _name(dtype),
        "load_format": loader.LOAD_FORMAT,
        "skip_tokenizer_init": True,
        "generation_config": "vllm",
        "max_model_len": config.context + 1,
        "max_num_seqs": config.slots,
        "max_num_batched_tokens": max_tokens,
        "block_size": need.block_size,
        "kv_cache_memory_bytes": need.max_positions * need.bytes_per_position,
        "gpu_memory_utilization": 0.01,  # unused: kv_cache_memory_bytes sets the size
        "enable_prefix_caching": False,  # the scheduler has its own
        "distributed_executor_backend": "uni",
        "async_scheduling": device.type == "cuda",
        "enforce_eager": device.type == "cpu",
        "additional_config": {BATCHES: batches, FP8: config.vllm.fp8_predictor},
        "attention_config": {"flash_attn_max_num_splits_for_cuda_graph": 1} if reproducible else {},
        "compilation_config": {
            "mode": 0,
            "cudagraph_mode": mode,
            "cudagraph_capture_sizes": [max_tokens] if reproducible else _graph_sizes(batches, max_tokens),
        },
    }


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _graph_mode(device: torch.device, dtype: torch.dtype, head_dim: int) -> str:
    """Return vLLM's CUDA graph mode, which says which steps run as one graph.

    FlashAttention 3, which supports only one GPU generation, allows graphs for all steps. Otherwise only decode steps
    run as graphs.

    For head sizes outside ``_SAME_PLAN_HEAD_DIMS``, FlashAttention 3 plans a step of single rows without causality. A
    graph that was captured for longer queries misreads such a plan, and its output is noise.
    """
    if device.type == "cpu":
        return "NONE"
    hopper = torch.cuda.get_device_capability(device)[0] == _FLASH_ATTENTION_3_CAPABILITY
    return "FULL" if hopper and dtype == torch.bfloat16 and head_dim in _SAME_PLAN_HEAD_DIMS else "FULL_DECODE_ONLY"


def _graph_sizes(batches: Sequence[int], max_tokens: int) -> list[int]:
    """Return the row counts to capture: for decode-only steps, then for steps with prefill."""
    return [*batches, *(rows for rows in _STEP_ROWS if batches[-1] < rows < max_tokens), max_tokens]


def _cache_need(
    talker: TalkerArchitecture, config: TalkerConfig, device: torch.device, dtype: torch.dtype
) -> CacheRequirements:
    """Return the KV cache size: ``cache_positions`` if configured, else one context per slot.

    Both bounds include one block that vLLM reserves. Without ``cache_positions`` the minimum is one context.
    """
    block = _BLOCK_SIZE[device.type]
    context_blocks = math.ceil((config.context + 1) / block)
    positions = config.vllm.cache_positions
    maximum = config.slots * context_blocks if positions is None else max(context_blocks, math.ceil(positions / block))
    minimum = context_blocks if positions is None else maximum
    shape = talker.transformer
    position = 2 * shape.layers * shape.kv_heads * shape.head_dim * dtype.itemsize
    return CacheRequirements(position, block, (minimum + 1) * block, (maximum + 1) * block, config.context)


def _executor(base: type[Executor], memory: GpuMemory | None, need: CacheRequirements) -> type[Executor]:
    """Return a subclass of ``base`` that skips vLLM's warm-up, and whose KV cache size comes from ``memory``, if any.

    The warm-up takes seconds at a first start, for kernels that only vLLM's own scheduling and sampling use.
    vLLM asks for the size after it has loaded the weights; the size is measured after the longest step has run.
    """

    class TalkerExecutor(base):
        def determine_available_memory(self) -> list[int]:
            if memory is None:
                return super().determine_available_memory()
            memory.reset_peak()
            return [memory.cache_bytes(need) for _ in super().determine_available_memory()]

        def collective_rpc(self, method: Any, *args: Any, **kwargs: Any) -> Any:
            if method != "compile_or_warm_up_model":
                return super().collective_rpc(method, *args, **kwargs)
            if not self.model_config.enforce_eager:
                self.driver_worker.worker.model_runner.capture_model()
            return []

    return TalkerExecutor
