"""Runs the engine with stand-ins for its models, to benchmark everything else.

    python -m benchmarks.lib.stand_in_engine MODULE [ARGUMENTS]

Runs MODULE (server.cli.main, engine.worker, engine.code2wav.process) as ``python -m`` does, and likewise the processes
that it starts. In them the core of the vLLM talker returns one frame of every utterance per step, and the decoder of
Code2Wav returns constant samples. Both sleep in place of waiting for a GPU. Stages, links, client and server are real.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from engine.talker.gpu_step.inputs import UtteranceState

STEP_MS, BATCH_MS, SWITCH_MS = "STAND_IN_STEP_MS", "STAND_IN_BATCH_MS", "STAND_IN_SWITCH_MS"
"""Environment variables, in milliseconds: duration of a talker step, of a Code2Wav batch, Python's switch interval."""
LAUNCHES = "STAND_IN_LAUNCHES"
"""Environment variable: number of torch calls per step. Each one releases the GIL, as a kernel launch does."""
PAUSES = "STAND_IN_PAUSES"
"""Environment variable: a float32 file with the number of steps, then for each the seconds from its end to the next."""
MOST_PAUSES = 1_000_000
_CODE2WAV_THREAD = "code2wav"
"""Name of the decoder's thread, by which other processes can identify its CPU time."""
_LARGE = 30 << 20
"""Size in bytes of a block that is allocated and freed, as in loading weights. It raises malloc's mmap threshold, so
malloc reuses memory of that size later."""
_MODULES = frozenset({"engine.worker", "engine.code2wav.process"})


def is_code2wav(pid: int, thread: int) -> bool:
    """Return whether ``thread`` of process ``pid`` is Code2Wav's thread."""
    return Path(f"/proc/{pid}/task/{thread}/comm").read_text().strip() == _CODE2WAV_THREAD


@dataclass(slots=True)
class _Request:
    """The fields of a vLLM request that the talker reads."""

    request_id: str
    num_prompt_tokens: int
    num_computed_tokens: int
    frames_left: int
    output: SimpleNamespace


class _Core:
    """A stand-in for ``TalkerCore``. As in vLLM, a step runs while the output of the previous one is processed."""

    def __init__(self) -> None:
        import torch

        self._seconds, self._step_ends = _seconds(STEP_MS), 0.0
        self._launches, self._tensor = int(os.environ[LAUNCHES]), torch.zeros(16)
        self._pauses = np.memmap(os.environ[PAUSES], np.float32, "r+", shape=(1 + MOST_PAUSES,))
        self._requests: dict[str, _Request] = {}
        self._outputs: list[SimpleNamespace] = []
        self._paused_keys: Callable[[], Collection[str]] = list

    def set_paused_keys(self, paused_keys: Callable[[], Collection[str]]) -> None:
        self._paused_keys = paused_keys

    def add(self, utterance: UtteranceState) -> _Request:
        codes = np.ones((1, 16), np.int32)
        output = SimpleNamespace(
            request_id=utterance.key,
            new_token_ids=[1],
            new_logprobs=SimpleNamespace(logprob_token_ids=codes),
            finished=False,
        )
        length = len(utterance.prompt.text)
        request = _Request(utterance.key, length, length - 1, utterance.sampling.max_new_tokens, output)
        self._requests[utterance.key] = request
        return request

    def abort(self, key: str) -> None:
        del self._requests[key]
        self._outputs = [output for output in self._outputs if output.request_id != key]

    @property
    def in_flight(self) -> bool:
        return bool(self._outputs)

    def step(self) -> tuple[list[Any], bool]:
        from engine.talker.vllm.step_output import step_outputs

        self._wait()
        outputs, self._outputs = self._outputs, []
        paused = self._paused_keys()
        for request in list(self._requests.values()):
            if request.request_id in paused:
                continue
            request.num_computed_tokens += 1
            request.frames_left -= 1
            if not request.frames_left:
                request.output = SimpleNamespace(**{**vars(request.output), "finished": True})
                del self._requests[request.request_id]
            self._outputs.append(request.output)
        return step_outputs(outputs), bool(self._outputs)

    def _wait(self) -> None:
        """Wait until the previous step has ended, which started with the previous call."""
        for _ in range(self._launches):
            self._tensor.add_(1)
        now = time.monotonic()
        if self._outputs and self._pauses[0] < MOST_PAUSES:
            self._pauses[0] += 1
            self._pauses[int(self._pauses[0])] = now - self._step_ends
        time.sleep(self._seconds)
        self._step_ends = now + self._seconds

    def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class _PendingBatch:
    """A batch in flight, whose samples are available at ``moment`` (``time.monotonic``)."""

    samples: NDArray[np.int16]
    moment: float

    @property
    def done(self) -> bool:
        return time.monotonic() >= self.moment

    def collect(self) -> NDArray[np.int16]:
        if not self.done:
            time.sleep(max(0.0, self.moment - time.monotonic()))
        return self.samples


class _Decoder:
    """A stand-in for ``GraphedDecoder``."""

    padded = True

    def __init__(self, rows: int) -> None:
        from engine.code2wav.prefix_cache import PrefixCache

        self.prefix_cache = PrefixCache()
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(_CODE2WAV_THREAD)
        self._free = list(range(rows))
        self._samples = np.full((rows, 24 * 1920), 3277, np.int16)
        np.ones(_LARGE, np.uint8)
        self._seconds = _seconds(BATCH_MS)

    @property
    def free_rows(self) -> int:
        return len(self._free)

    def begin(self, context: object) -> int:
        return self._free.pop()

    def end(self, row: int) -> None:
        self._free.append(row)

    def launch(self, rows: Sequence[int], codes: NDArray[np.int16]) -> _PendingBatch:
        return _PendingBatch(self._samples[: len(rows), : codes.shape[1] * 1920], time.monotonic() + self._seconds)


def _seconds(variable: str) -> float:
    return float(os.environ[variable]) / 1000


def _load_talker(checkpoint: Any, config: Any, *_: Any) -> Any:
    from engine.talker.vllm.talker import VllmTalker

    return VllmTalker(_Core(), config.talker, eos=checkpoint.model.talker.ids.eos)  # type: ignore[arg-type]


def _spawn(command: Sequence[str], sides: Iterable[Any], **options: Any) -> subprocess.Popen[Any]:
    """Call ``engine.transfer.spawn`` with a command that installs the stand-ins in the new process, too."""
    from engine.transfer import spawn

    index = next(number for number, word in enumerate(command) if word in _MODULES)
    return spawn([*command[:index], "benchmarks.lib.stand_in_engine", *command[index:]], sides, **options)


def _replace(module: str, **parts: Any) -> None:
    for name, part in parts.items():
        setattr(import_module(module), name, part)


def main() -> None:
    """Install the stand-ins and run the module."""
    module, *sys.argv[1:] = sys.argv[1:]
    if module == "server.cli.main":
        _replace("engine.client.process", spawn=_spawn)
    else:
        sys.setswitchinterval(_seconds(SWITCH_MS))
        _replace(
            "engine.code2wav.launch", spawn=_spawn, load_decoder=lambda config, _: _Decoder(config.code2wav_streams)
        )
    if module == "engine.worker":
        _replace(module, load_talker=_load_talker)
    import_module(module).main()


if __name__ == "__main__":
    main()
