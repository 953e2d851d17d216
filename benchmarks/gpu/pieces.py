"""The pieces of a step of the talker on vLLM, each by itself on the GPU: what was captured, replayed and timed.

Everything is done with the tensors of the step before, so the talker must have made one with as many rows. What it
makes afterwards is of no use: the pieces have moved its state on.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from engine.talker.fused.dispatch import first_codes
from engine.talker.gpu_step.sampler import FrameSampler, RngKey
from engine.talker.gpu_step.slots import RowDraws
from engine.talker.vllm.talker import VllmTalker

_RUNS = 5
_REPLAYS = 20


class Pieces:
    """Of a talker that runs on a GPU."""

    def __init__(self, talker: VllmTalker) -> None:
        core: Any = talker._core._core
        self._runner = core.model_executor.driver_worker.worker.model_runner
        self._model, self._state = self._runner.model, self._runner.model_state
        self._slots, self._inputs = self._state.slots, self._state._inputs
        self._tail = self._runner.sampler._tail
        self._pool = torch.cuda.graph_pool_handle()

    @torch.inference_mode()
    def milliseconds(self, rows: int) -> dict[str, float | None]:
        """Piece -> GPU time in a step of ``rows``; None for one that is not there."""
        size = next(each for each in self._tail._sizes if each >= rows)
        slots = torch.arange(size, device=self._slots.frame.device).clamp_(max=rows - 1)
        hidden, head = self._tail._hidden[:size], self._model.head
        draw_first = first_codes(self._slots)
        first = draw_first(head(hidden), slots)
        without_others = FrameSampler(head, self._slots, _NoResidual(self._slots.frame[slots]), draw_first)
        return {
            "layers": self._layers(rows),
            "first code": self._timed(lambda: without_others(hidden, slots)),
            "predictor": self._timed(lambda: self._model.residual(hidden, *first)),
            "tail": _replayed(self._tail._runs[size]),
            "input rows": self._timed(lambda: self._state._rows[:size].copy_(self._inputs._fed_back(slots))),
        }

    def _layers(self, rows: int) -> float | None:
        """vLLM's own graph for as many rows; it reads what the step before was given."""
        graphs = self._runner.cudagraph_manager.graphs
        able = [each for each in graphs if each.num_tokens >= rows and each.uniform_token_count in (None, 1)]
        if not able:
            return None
        chosen = min(able, key=lambda each: (each.num_tokens, each.uniform_token_count is None))
        return _replayed(graphs[chosen].replay)

    def _timed(self, run: Callable[[], Any]) -> float:
        return _replayed(_captured(run, self._pool).replay)


def no_gpu_work() -> AbstractContextManager[Any]:
    """While it lasts no graph is replayed: what a step then takes is the host's part of it."""
    return mock.patch.object(torch.cuda.CUDAGraph, "replay", lambda graph: None)


class _NoResidual:
    """In the code predictor's place: nothing."""

    def __init__(self, embedding: Tensor) -> None:
        self._embedding = embedding

    def __call__(self, hidden: Tensor, first: Tensor, draws: RowDraws, chance: RngKey) -> tuple[Tensor, Tensor]:
        return first[:, None].expand(-1, 16), self._embedding


def _captured(run: Callable[[], Any], pool: Any) -> torch.cuda.CUDAGraph:
    """``run`` as a graph; it is run before, for what is made on first use."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        run()
    return graph


def _replayed(run: Callable[[], Any]) -> float:
    """Milliseconds a run: the median of some dozens, between two events each."""
    run()
    times = []
    for _ in range(_RUNS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(_REPLAYS):
            run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / _REPLAYS)
    return statistics.median(times)
