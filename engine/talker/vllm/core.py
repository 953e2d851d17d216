"""vLLM's engine core in this thread: requests in, a step at a time, codes out."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from vllm import SamplingParams
from vllm.engine.arg_utils import EngineArgs
from vllm.v1.engine import EngineCoreRequest
from vllm.v1.engine.core import EngineCore
from vllm.v1.executor.abstract import Executor
from vllm.v1.request import Request

from engine.architecture import TalkerArchitecture
from engine.checkpoint import Checkpoint
from engine.config import TalkerConfig
from engine.errors import EngineFailed, SetupError
from engine.request import CODEBOOKS
from engine.talker.resident.buckets import batch_sizes
from engine.talker.resident.utterance import Utterance
from engine.talker.vllm import loader
from engine.talker.vllm.prompt_ids import prompt_ids, voice_salt
from engine.talker.vllm.scheduler import StandingScheduler
from engine.talker.vllm.state import UTTERANCE

_PREFILL_ROWS = 2048
_BLOCK = {"cuda": 16, "cpu": 32}
"""Positions of a block of the cache."""
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Drawn:
    """The codes int16 [16] that a request drew in a step; ``last``: vLLM has let it go."""

    key: str
    codes: NDArray[np.int16]
    last: bool


class TalkerCore:
    """vLLM's scheduler, cache and model runner. One thread does everything.

    Raises SetupError where the device has no room for the cache.
    """

    def __init__(self, checkpoint: Checkpoint, config: TalkerConfig, device: torch.device, dtype: torch.dtype) -> None:
        self._architecture = checkpoint.model.talker
        self._limit = config.context + 1
        arguments = _arguments(self._architecture, config, device, dtype)
        loader.register(checkpoint)
        with tempfile.TemporaryDirectory() as folder:
            loader.write_config(Path(folder), self._architecture, self._limit, dtype)
            engine = EngineArgs(model=folder, **arguments).create_engine_config()
        engine.scheduler_config.async_scheduling = True  # the CPU backend turns it off, and has no need to
        try:
            self._core = EngineCore(engine, Executor.get_class(engine), log_stats=False)
        except torch.OutOfMemoryError as error:
            raise SetupError(_no_room(arguments, self._architecture, dtype), code="out_of_memory") from error

    def let_stand(self, stands: Callable[[Request], bool]) -> None:
        """Ask ``stands`` before every step which running requests are to be left out of it."""
        self._core.scheduler.stands = stands

    def add(self, utterance: Utterance) -> Request:
        """A request for an utterance; it joins the next step."""
        ids = prompt_ids(utterance.prompt, self._architecture)
        sampling = SamplingParams(
            max_tokens=min(utterance.sampling.max_new_tokens, self._limit - len(ids)),
            stop_token_ids=[self._architecture.ids.eos],
            logprobs=1,
            detokenize=False,
            extra_args={UTTERANCE: utterance},
        )
        asked = EngineCoreRequest(
            request_id=utterance.key,
            prompt_token_ids=ids,
            mm_features=None,
            sampling_params=sampling,
            pooling_params=None,
            arrival_time=time.time(),
            lora_request=None,
            cache_salt=voice_salt(utterance.prompt),
            data_parallel_rank=None,
        )
        request, wave = self._core.preprocess_add_request(asked)
        self._core.add_request(request, wave)
        return request

    def abort(self, key: str) -> None:
        """Forget a request; its slot and its cache are free for the next step."""
        self._core.abort_requests([key])

    @property
    def under_way(self) -> bool:
        """Whether a step has been started whose codes have not been taken."""
        return any(scheduled.total_num_scheduled_tokens for _, scheduled, *_ in self._core.batch_queue)

    def step(self) -> tuple[list[Drawn], bool]:
        """Start a step, and take the codes of an earlier one. Also whether anything was started."""
        outputs, started = self._core.step_fn()
        self._core.post_step(model_executed=started)
        return [drawn for each in (outputs or {}).values() for drawn in _codes(each.outputs)], started

    def close(self) -> None:
        """Give the device's memory back."""
        self._core.shutdown()


def _codes(outputs: list[Any]) -> list[Drawn]:
    drawn = []
    for output in outputs:
        if not output.new_token_ids:
            raise EngineFailed(f"vLLM gave an utterance up: {output.finish_reason}")
        [codes] = output.new_logprobs.logprob_token_ids
        drawn.append(Drawn(output.request_id, codes.astype(np.int16), output.finished))
    return drawn


def _arguments(
    talker: TalkerArchitecture, config: TalkerConfig, device: torch.device, dtype: torch.dtype
) -> dict[str, Any]:
    """What vLLM is started with."""
    block = _BLOCK[device.type]
    longest = math.ceil((config.context + 1) / block)
    wanted = config.vllm.cache_positions
    blocks = config.slots * longest if wanted is None else max(longest, math.ceil(wanted / block))
    rows = config.prefill_chunk or _PREFILL_ROWS
    return {
        "dtype": str(dtype).removeprefix("torch."),
        "load_format": loader.LOAD_FORMAT,
        "skip_tokenizer_init": True,
        "generation_config": "vllm",
        "max_model_len": config.context + 1,
        "max_num_seqs": config.slots,
        "max_num_batched_tokens": config.slots + rows,
        "block_size": block,
        "kv_cache_memory_bytes": (blocks + 1) * block * _position_bytes(talker, dtype),
        "gpu_memory_utilization": 0.01,  # without meaning, as the cache's size is given
        "enable_prefix_caching": config.vllm.prefix_caching,
        "distributed_executor_backend": "uni",
        "scheduler_cls": StandingScheduler,
        "async_scheduling": device.type == "cuda",
        "max_logprobs": CODEBOOKS,
        "disable_log_stats": True,
        "enforce_eager": device.type == "cpu",
        "compilation_config": {
            "mode": 0,
            "cudagraph_mode": "NONE" if device.type == "cpu" else "FULL_DECODE_ONLY",
            "cudagraph_capture_sizes": batch_sizes(config.slots),
        },
    }


def _position_bytes(talker: TalkerArchitecture, dtype: torch.dtype) -> int:
    """What one position of one utterance takes of the cache."""
    shape = talker.transformer
    return 2 * shape.layers * shape.kv_heads * shape.head_dim * dtype.itemsize


def _no_room(arguments: dict[str, Any], talker: TalkerArchitecture, dtype: torch.dtype) -> str:
    wanted, free = arguments["kv_cache_memory_bytes"], torch.cuda.mem_get_info()[0]
    positions = free // _position_bytes(talker, dtype)
    return (
        f"the GPU has no room for the talker: keys and values alone would take {wanted / _GIB:.1f} GiB, and "
        f"{free / _GIB:.1f} GiB are left, enough for {positions} positions: lower talker.slots, talker.context or "
        "talker.vllm.cache_positions"
    )
