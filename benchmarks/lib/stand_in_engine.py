"""Runs the engine with stand-ins for its models, to benchmark everything else.

    python -m benchmarks.lib.stand_in_engine MODULE [ARGUMENTS]

Runs MODULE (server.cli.main, engine.worker, engine.code2wav.process) as ``python -m`` does, and likewise the processes
that it starts. In them the core of the vLLM talker returns one frame of every utterance per step, and the decoder of
Code2Wav returns constant samples. Both sleep in place of waiting for a GPU. Stages, links, client and server are real.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from engine.talker.gpu_step.inputs import UtteranceState
    from engine.talker.vllm.scheduler import Batch

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
_BLOCK_SIZE, _PREFILL_ROWS = 16, 2048
_MODULES = frozenset({"engine.worker", "engine.code2wav.process"})


def is_code2wav(pid: int, thread: int) -> bool:
    """Return whether ``thread`` of process ``pid`` is Code2Wav's thread."""
    return Path(f"/proc/{pid}/task/{thread}/comm").read_text().strip() == _CODE2WAV_THREAD


class _Core:
    """A stand-in for ``TalkerCore``. As in vLLM, a step runs while the output of the previous one is processed."""

    def __init__(self, slots: int, context: int) -> None:
        import torch

        from engine.talker.vllm.scheduler import CacheSize, Scheduler

        blocks = slots * math.ceil((context + 1) / _BLOCK_SIZE) + 1
        self.scheduler = Scheduler(slots, slots + _PREFILL_ROWS, CacheSize(blocks, _BLOCK_SIZE, context))
        self._seconds = _seconds(STEP_MS)
        self._previous: _PendingCodes | None = None
        self._launches, self._tensor = int(os.environ[LAUNCHES]), torch.zeros(16)
        self._pauses = np.memmap(os.environ[PAUSES], np.float32, "r+", shape=(1 + MOST_PAUSES,))
        self._codes = np.ones((slots, 16), np.int16)

    def join(self, slot: int, utterance: UtteranceState) -> None:
        pass

    def leave(self, slot: int) -> None:
        pass

    def launch(self, batch: Batch) -> _PendingCodes:
        """Start a step when the previous one has ended."""
        for _ in range(self._launches):
            self._tensor.add_(1)
        now, previous = time.monotonic(), self._previous
        if previous is not None and not previous.collected and self._pauses[0] < MOST_PAUSES:
            self._pauses[0] += 1
            self._pauses[int(self._pauses[0])] = max(0.0, now - previous.moment)
        begins = now if previous is None else max(now, previous.moment)
        self._previous = _PendingCodes(self._codes[: int(batch.samples.sum())], begins + self._seconds)
        return self._previous

    def close(self) -> None:
        pass


@dataclass(slots=True)
class _PendingCodes:
    """The codes of a step that ends at ``moment`` (``time.monotonic``)."""

    codes: NDArray[np.int16]
    moment: float
    collected: bool = False

    @property
    def done(self) -> bool:
        return time.monotonic() >= self.moment

    def first_frame(self, stream: int, row: int) -> None:
        return None

    def collect(self) -> NDArray[np.int16]:
        self.collected = True
        time.sleep(max(0.0, self.moment - time.monotonic()))
        return self.codes


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

    core = _Core(config.talker.slots, config.talker.context)
    return VllmTalker(core, config.talker, eos=checkpoint.model.talker.ids.eos)


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
