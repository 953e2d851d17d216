"""Times the pieces of a step of the talker on vLLM, each alone on the GPU, by replaying captured graphs.

The replays use the tensors of the previous step, so the talker must have run a step with the same number of rows. They
also change the talker's state, so its later output is invalid.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from engine.talker.fused.dispatch import first_code_sampler
from engine.talker.gpu_step.frame_sampler import FrameSampler, RngKey
from engine.talker.sampling_params import SamplingTensors
from engine.talker.vllm.talker import VllmTalker

_RUNS = 5
_REPLAYS = 20


class Pieces:
    """The pieces of a step of a talker on a GPU."""

    def __init__(self, talker: VllmTalker) -> None:
        core: Any = talker._core
        self._runner, self._own_layers = core.model_runner, core._steps.own_layers
        self._model, self._state = self._runner.model, self._runner.model_state
        self._slots = self._state.slots
        self._pool = torch.cuda.graph_pool_handle()

    @torch.inference_mode()
    def milliseconds(self, rows: int) -> dict[str, float | None]:
        """Return the GPU time of each piece in a step of ``rows``; None for a piece that was not captured."""
        size = next(each for each in self._state.sample_frames._sizes if each >= rows)
        slots = torch.arange(size, device=self._slots.embedding.device).clamp_(max=rows - 1)
        hidden, head = self._state.hidden[:size], self._model.head
        sample_first = first_code_sampler(self._slots)
        first = sample_first(head(hidden), slots)
        first_code_only = FrameSampler(head, self._slots, _NoCodePredictor(self._slots.embedding[slots]), sample_first)
        return {
            "layers": self._layers(rows),
            "first code": self._timed(lambda: first_code_only(hidden, slots)),
            "predictor": self._timed(lambda: self._model.residual(hidden, *first)),
            "tail": _replayed(self._state.sample_frames._runs[size][1]),
            "input rows": self._timed(lambda: self._state.input_rows(self._state.voices[:size])),
        }

    def _layers(self, rows: int) -> float | None:
        """Time the graph for ``rows`` rows that decode. It reads the inputs of the previous step."""
        for own in (self._own_layers.one_launch, self._own_layers.rows):
            if own is not None and rows <= own.max_rows:
                return _replayed(own._runs[next(size for size in own._sizes if size >= rows)][1])
        graphs = self._runner.cudagraph_manager.graphs
        candidates = [each for each in graphs if each.num_tokens >= rows and each.uniform_token_count in (None, 1)]
        if not candidates:
            return None
        chosen = min(candidates, key=lambda each: (each.num_tokens, each.uniform_token_count is None))
        return _replayed(graphs[chosen].replay)

    def _timed(self, run: Callable[[], Any]) -> float:
        return _replayed(_captured(run, self._pool).replay)


def no_gpu_work() -> AbstractContextManager[Any]:
    """Return a context in which graphs are not replayed, so that a step takes only its host (CPU) time."""
    return mock.patch.object(torch.cuda.CUDAGraph, "replay", lambda graph: None)


class _NoCodePredictor:
    """Replaces the code predictor by a no-op."""

    def __init__(self, embedding: Tensor) -> None:
        self._embedding = embedding

    def __call__(self, hidden: Tensor, first: Tensor, params: SamplingTensors, rng: RngKey) -> tuple[Tensor, Tensor]:
        return first[:, None].expand(-1, 16), self._embedding


def _captured(run: Callable[[], Any], pool: Any) -> torch.cuda.CUDAGraph:
    """Capture ``run`` as a graph, after a warm-up run for lazy initialization."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        run()
    return graph


def _replayed(run: Callable[[], Any]) -> float:
    """Return the milliseconds per run: the median over several groups of replays, each timed with two events."""
    run()
    times: list[float] = []
    for _ in range(_RUNS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(_REPLAYS):
            run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / _REPLAYS)
    return statistics.median(times)
