"""Measures the encoding of reference recordings on a GPU: one by one in plain torch, and in captured batches.

    python -m benchmarks.gpu.references FOLDER [--counts 1 2 4 8] [--seconds 3 10 30] [--repeats 10]

FOLDER: a checkpoint that can clone. The recordings are noise and not cached, and the GPU is otherwise idle. Times are
medians until all voices are on the host: ``ms`` is wall-clock time, ``cpu ms`` the CPU time of the encoding thread.
``in context`` is the x-vector and the codes. Batches are those that the engine forms when the recordings arrive
together. A CPU has no graphs, so running it there is only a smoke test.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.lib.report import machine
from engine.checkpoint.folder import Checkpoint, open_checkpoint
from engine.cloning.networks import ReferenceNetworks, captured_sizes
from engine.config import EngineConfig
from engine.device.selection import choose_device, prepare_torch
from engine.protocol.request import SAMPLE_RATE

MIB = 1 << 20
Recordings = Sequence[NDArray[np.float32]]


class Timing(NamedTuple):
    """A measurement in milliseconds: wall-clock time, and CPU time of the thread."""

    wall: float
    cpu: float


class Memory:
    """Measures GPU memory usage; 0 on a CPU."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._free = self._now()

    def allocated(self) -> float:
        """Return the MiB allocated since the last call, without torch's cached free memory."""
        before, self._free = self._free, self._now()
        return (before - self._free) / MIB

    def _now(self) -> int:
        if self._device.type != "cuda":
            return 0
        torch.cuda.synchronize(self._device)
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(self._device)[0]


def noise_recordings(count: int, seconds: float) -> Recordings:
    """Return recordings of noise."""
    noise = np.random.default_rng(count).standard_normal((count, round(seconds * SAMPLE_RATE)), np.float32)
    return list(0.1 * noise)


def batches(networks: ReferenceNetworks, recordings: Recordings) -> Iterator[Recordings]:
    """Split recordings into batches as the engine does (``engine.cloning.worker``)."""
    while recordings:
        count = networks.batch_size([len(each) for each in recordings])
        yield recordings[:count]
        recordings = recordings[count:]


def encode(networks: ReferenceNetworks, recordings: Recordings, codes: bool) -> None:
    """Encode all recordings in batches."""
    for batch in batches(networks, recordings):
        networks.encode(batch, [codes] * len(batch))


def time_calls(call: Callable[[], object], repeats: int) -> Timing:
    """Return the median times of a call, after one warm-up call."""
    call()
    walls, cpus = [], []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.thread_time()
        call()
        walls.append(1e3 * (time.perf_counter() - wall))
        cpus.append(1e3 * (time.thread_time() - cpu))
    return Timing(statistics.median(walls), statistics.median(cpus))


def load(checkpoint: Checkpoint, device: torch.device, *, captured: bool) -> ReferenceNetworks:
    """Load the networks, and print their memory usage and loading time."""
    memory, began = Memory(device), time.monotonic()
    networks = ReferenceNetworks(checkpoint, device)
    if not networks.can_clone:
        raise SystemExit(f"{checkpoint.folder} cannot clone: it has no speaker encoder")
    print(f"weights: {memory.allocated():.0f} MiB, {time.monotonic() - began:.1f} s")
    if captured:
        began, sizes = time.monotonic(), captured_sizes()
        networks.capture(sizes)
        seconds = time.monotonic() - began
        print(f"graphs of {len(sizes.all)} batch sizes: {memory.allocated():.0f} MiB, {seconds:.1f} s")
    return networks


def print_plain_peak_memory(networks: ReferenceNetworks, device: torch.device) -> None:
    """Print the peak memory of encoding 30 s without graphs."""
    if device.type != "cuda":
        return
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    encode(networks, noise_recordings(1, 30), networks.can_clone_in_context)
    print(f"30 s in plain torch: {(torch.cuda.max_memory_allocated(device) - before) / MIB:.0f} MiB in addition")


def time_all(
    plain: ReferenceNetworks,
    captured: ReferenceNetworks,
    counts: Sequence[int],
    seconds: Sequence[float],
    repeats: int,
) -> None:
    """Print a row for each number and length of recordings."""
    print("| recordings | s | voice | plain ms | cpu ms | batches | ms | cpu ms | ms each |\n" + 9 * "|---" + "|")
    for codes in (False, True) if plain.can_clone_in_context else (False,):
        for length in seconds:
            for count in counts:
                recordings = noise_recordings(count, length)
                alone = time_calls(partial(encode, plain, recordings, codes), repeats)
                batch_sizes = " + ".join(str(len(batch)) for batch in batches(captured, recordings))
                batched = time_calls(partial(encode, captured, recordings, codes), repeats)
                print(
                    f"| {count} | {length:g} | {'in context' if codes else 'x-vector'} "
                    f"| {alone.wall:.2f} | {alone.cpu:.2f} "
                    f"| {batch_sizes} | {batched.wall:.2f} | {batched.cpu:.2f} | {batched.wall / count:.2f} |",
                    flush=True,
                )


def main() -> None:
    """Load the networks with and without graphs, and time both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="a checkpoint that can clone")
    parser.add_argument("--device", default="auto", choices=("auto", "cuda", "cpu"))
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--seconds", type=float, nargs="+", default=[3, 10, 30])
    parser.add_argument("--repeats", type=int, default=10)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    config = EngineConfig(model=args.folder, device=args.device)
    device = choose_device(config)
    prepare_torch(config)
    print(machine(), device)
    checkpoint = open_checkpoint(args.folder)
    captured = load(checkpoint, device, captured=True)
    plain = load(checkpoint, device, captured=False)
    print_plain_peak_memory(plain, device)
    time_all(plain, captured, args.counts, args.seconds, args.repeats)


if __name__ == "__main__":
    main()
