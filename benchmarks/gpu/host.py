"""Measures the host (CPU) time of a step of the talker on vLLM, by part.

    python -m benchmarks.gpu.host FOLDER [--rows 1,32,128,256] [--joins 4] [--json FILE]

FOLDER is a checkpoint with named voices (``benchmarks.lib.fullsize``). Without a GPU, it uses vLLM's CPU build, as
``tests/vllm`` do, and runs the talker on the CPU with a small random checkpoint (``benchmarks.lib.checkpoints``).

No captured graph is replayed, and on a CPU the layers and the frame sampler return zeros, so the figures contain no
work of the models. Steps run in the talker's stage with a real link to a reader in another thread, which returns
credit after every fourth frame. Prints for each number of utterances (rows) the median time of a step in which all of
them decode, in microseconds, and its parts:

- schedule: select the rows and allocate cache blocks;
- inputs: the rows of the step, and the upload of what its layers need;
- start: reset the slots of utterances that join;
- attention: vLLM's attention metadata;
- launch: the rest of starting a step: the graphs with their inputs, the copy of the codes;
- output: codes to frames and ends of streams;
- send: one record of frames;
- credit: read credit and cancellations;
- other: the loop of the stage.

With ``--joins N``, in every step N utterances end and N others join with their prompts, as with many short requests;
join is then the time of admitting them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from benchmarks.lib.report import machine
from engine.checkpoint.folder import Checkpoint, open_checkpoint
from engine.config import TalkerConfig
from engine.prompt.builder import build_prompt
from engine.protocol.request import SamplingParams, SpeechRequest
from engine.talker.base import FRAMES_IN_FLIGHT
from engine.talker.requests import Abort, Intent, PreparedUtterance, resolve
from engine.talker.stage import TalkerStage
from engine.talker.vllm.talker import VllmTalker, load_vllm_talker
from engine.transfer import Endpoint, Kind, Wakeup, pair, rows_of
from server.bench.workload import SENTENCES

ROWS = (1, 32, 128, 256)
_STEPS, _WARM_UP_STEPS = 60, 12
_CREDIT_FRAMES = 4
_WINDOW = 64


class Parts:
    """Accumulates the seconds of parts of a step. Nested parts are not counted twice."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._nested = [0.0]

    def timed(self, name: str, run: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``run`` with its time added to the part ``name``."""

        def measured(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            self._nested.append(0.0)
            try:
                return run(*args, **kwargs)
            finally:
                elapsed = time.perf_counter() - began
                self.seconds[name] += elapsed - self._nested.pop()
                self._nested[-1] += elapsed

        return measured

    @contextmanager
    def measuring(self, methods: dict[str, tuple[Any, str]]) -> Iterator[None]:
        """Measure methods, part -> (object, name of the method)."""
        with ExitStack() as stack:
            for part, (owner, name) in methods.items():
                plain = getattr(owner, name)
                stack.enter_context(mock.patch.object(owner, name, self.timed(part, plain)))
            yield


class Requests:
    """The requests of the stage, all from this process. One turn a step: what joins and what ends."""

    def __init__(self, checkpoint: Checkpoint, frames: int) -> None:
        self._checkpoint, self._frames = checkpoint, frames
        self._speakers = list(checkpoint.model.talker.speakers)
        self._prepared = [self._prepare(number) for number in range(2 * len(SENTENCES))]
        self._running: list[int] = []
        self._turn: deque[Intent] = deque()
        self._admitted = 0
        self.alive = True

    def join(self, count: int) -> None:
        """Admit ``count`` utterances in the next step."""
        for _ in range(count):
            self._admitted += 1
            prepared = self._prepared[self._admitted % len(self._prepared)]
            self._turn.append(replace(prepared, stream=self._admitted))
            self._running.append(self._admitted)

    def end(self, count: int) -> None:
        """Abort the ``count`` oldest utterances in the next step."""
        self._turn += [Abort(stream) for stream in self._running[:count]]
        del self._running[:count]

    def end_all(self) -> None:
        """Abort all utterances in the next step."""
        self.end(len(self._running))

    def announced(self) -> bool:
        """Return False: everything is there when it is taken."""
        return False

    def stats(self) -> dict[str, int]:
        """Return nothing: there are no probes."""
        return {}

    def pending(self) -> bool:
        """Return whether ``take`` has something to return."""
        return bool(self._turn)

    def take(self) -> Intent | None:
        """Return the next intent of the turn."""
        return self._turn.popleft() if self._turn else None

    def _prepare(self, number: int) -> PreparedUtterance:
        checkpoint = self._checkpoint
        request = SpeechRequest(
            SENTENCES[number % len(SENTENCES)],
            speaker=self._speakers[number % len(self._speakers)],
            sampling=SamplingParams(seed=number, max_new_tokens=self._frames),
        )
        prompt = build_prompt(request, checkpoint.model, checkpoint.tokenizer)
        return PreparedUtterance(0, prompt, resolve(request.sampling, checkpoint.generation), True, None)


def return_credit(frames: Endpoint, wakeup: Wakeup) -> None:
    """Read frames until the link closes. Return credit for every ``_CREDIT_FRAMES`` frames of a stream."""
    received: defaultdict[int, int] = defaultdict(int)
    while frames.alive:
        wakeup.wait_for(lambda: frames.pending() or not frames.alive)
        due: list[int] = []
        for record in frames.receive():
            if record.kind is Kind.ROWS:
                for stream, _ in rows_of(record):
                    received[stream] += 1
                    if received[stream] % _CREDIT_FRAMES == 0:
                        due.append(stream)
        if due:
            frames.release_each(due, _CREDIT_FRAMES)


class Bench:
    """The talker's stage, driven one iteration at a time."""

    def __init__(self, talker: VllmTalker, checkpoint: Checkpoint, context: int) -> None:
        self._talker, self._core = talker, talker._core
        self._requests = Requests(checkpoint, context)
        near, far = pair(window=_WINDOW)
        wakeup, reader_wakeup = Wakeup(), Wakeup()
        self._frames = near.attach(wakeup, reserve=FRAMES_IN_FLIGHT)
        self._reader = far.attach(reader_wakeup)
        threading.Thread(target=return_credit, args=(self._reader, reader_wakeup), daemon=True).start()
        self._stage = TalkerStage(talker, self._requests, frames=self._frames, wakeup=wakeup)

    def measure(self, rows: int, joins: int) -> dict[str, float]:
        """Return the median microseconds of each part of a step of ``rows`` utterances, and their total."""
        self._requests.join(rows)
        for _ in range(_WARM_UP_STEPS):
            self._iterate()
        steps = []
        for _ in range(_STEPS):
            self._requests.end(joins)
            self._requests.join(joins)
            steps.append(self._measured_iteration())
        self._requests.end_all()
        self._iterate()
        while self._talker.runnable(()):
            self._iterate()
        return {part: statistics.median(step.get(part, 0.0) for step in steps) for part in steps[-1]}

    def _measured_iteration(self) -> dict[str, float]:
        parts, core = Parts(), self._core
        steps = core._steps  # type: ignore[attr-defined]
        methods = {
            "schedule": (self._talker._scheduler, "schedule"),
            "inputs": (steps, "_prepare"),
            "start": (steps._state.inputs, "start_joined"),
            "attention": (steps, "_attention_metadata"),
            "launch": (core, "launch"),
            "output": (self._talker, "_output"),
            "send": (self._stage, "_emit"),
            "credit": (self._stage, "_take_cancellations"),
            "join": (self._stage, "_admit"),
        }
        waited = Parts()
        collect = importlib.import_module("engine.talker.vllm.step_runner").PendingCodes.collect
        with (
            parts.measuring(methods),
            mock.patch(
                "engine.talker.vllm.step_runner.PendingCodes.collect",
                lambda codes: parts.timed("wait", waited.timed("wait", collect))(codes),
            ),
        ):
            began = time.perf_counter()
            self._iterate()
            total = time.perf_counter() - began
        seconds = dict(parts.seconds)
        total -= seconds.pop("wait", 0.0)
        seconds["other"] = total - sum(seconds.values())
        return {part: 1e6 * value for part, value in {"total": total, **seconds}.items()}

    def _iterate(self) -> None:
        """Run one iteration of the stage's loop."""
        stage = self._stage
        stage._take_requests()
        stage._take_cancellations()
        stage._admit()
        paused = stage._paused()
        if self._talker.runnable(paused):
            stage._step(paused)

    def close(self) -> None:
        """Close the link."""
        self._frames.close()
        self._reader.close()


@contextmanager
def no_model_work(talker: VllmTalker, device: torch.device) -> Iterator[None]:
    """Return a context in which no captured graph is replayed; on a CPU, layers and frame sampler return zeros."""
    if device.type == "cuda":
        with mock.patch.object(torch.cuda.CUDAGraph, "replay", lambda graph: None):
            yield
        return
    runner: Any = talker._core.model_runner  # type: ignore[attr-defined]
    state = runner.model_state
    hidden, codes = torch.zeros_like(state.hidden), torch.zeros(state.slots.padding_row, 16, dtype=torch.int16)
    with (
        mock.patch.object(runner, "model", lambda inputs_embeds, **_: hidden[: len(inputs_embeds)]),
        mock.patch.object(state, "sample_frames", lambda columns: codes[: len(columns[0])]),
    ):
        yield


def line(rows: int, joins: int, figures: dict[str, float]) -> str:
    """Return the figures for one number of rows as text."""
    parts = ", ".join(f"{part} {value:.0f}" for part, value in figures.items() if part != "total")
    joining = f", {joins} join" if joins else ""
    return f"{rows:4d} rows{joining}: {figures['total']:6.0f} us: {parts}"


def main() -> None:
    """Load the talker, measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--rows", type=_numbers, default=ROWS, help="numbers of utterances, such as 1,32,128")
    parser.add_argument("--joins", type=int, default=4, help="utterances that join in a step, in a second measurement")
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--json", type=Path, help="write all results to this file")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu":
        importlib.import_module("tests.vllm.cpu_backend").install()
    checkpoint = open_checkpoint(args.folder)
    config = TalkerConfig(engine="vllm", slots=max(args.rows), context=args.context)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    talker = load_vllm_talker(checkpoint, config, device, dtype)
    properties = machine()
    print(", ".join(f"{name}: {value}" for name, value in properties.items()), flush=True)
    bench, results = Bench(talker, checkpoint, args.context), []
    with no_model_work(talker, device):
        for rows in args.rows:
            for joins in dict.fromkeys((0, min(args.joins, rows))):
                figures = bench.measure(rows, joins)
                print(line(rows, joins, figures), flush=True)
                results.append({"rows": rows, "joins": joins, "microseconds": figures})
    if args.json:
        args.json.write_text(json.dumps({"machine": properties, "steps": results}, indent=1) + "\n")
    bench.close()
    talker.close()


def _numbers(text: str) -> Sequence[int]:
    return tuple(int(each) for each in text.split(","))


if __name__ == "__main__":
    main()
