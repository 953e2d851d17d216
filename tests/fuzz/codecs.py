"""Feed mutated recordings of every format to the decoder: ``python -m tests.fuzz.codecs --inputs 495000 [--seed 1]``.

It drives the pool of decoder workers directly, with several recordings in flight. It fails when a recording gives
anything but samples or a 4xx error, when a worker is replaced without a logged reason, or when memory grows.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import psutil

from server.api_error import ApiError
from server.limits import Limits
from server.references.decode import Decoder
from tests.fuzz.mutation import Mutator
from tests.fuzz.recordings import recordings
from tests.fuzz.replies import Finding
from tests.server.containers import KINDS, encode_recording
from tests.server.recordings import tone

LIMITS = Limits(reference_min_seconds=0.05, reference_max_seconds=1.0, reference_max_bytes=2**20)
_SECONDS = 0.2
_IN_FLIGHT = 6
_ROUND = 5000
_GROWTH_MIB = 32


def corpus() -> dict[str, bytes]:
    """Return short valid recordings by format."""
    browser_formats = {
        name: encode_recording(tone(_SECONDS * rate / 16_000)[: int(_SECONDS * rate)], container, codec, rate, options)
        for name, (container, codec, rate, options) in KINDS.items()
    }
    return recordings(_SECONDS) | browser_formats


@dataclass
class Campaign:
    """The inputs of one seed, decoded by one pool."""

    seed: int
    decoder: Decoder = field(default_factory=lambda: Decoder(LIMITS))
    files: dict[str, bytes] = field(default_factory=corpus)

    def input(self, number: int) -> bytes:
        """Return input ``number`` of the seed. It does not depend on the inputs before."""
        random = Random(f"{self.seed} {number}")
        files = list(self.files.values())
        return Mutator(random).recording(random.choice(files), files)

    async def run(self, numbers: range) -> None:
        """Decode these inputs, several at once. Raises Finding."""
        remaining = iter(numbers)
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(_IN_FLIGHT):
                    tasks.create_task(self._decode_all(remaining))
        except ExceptionGroup as group:
            raise Finding(str(group.exceptions[0])) from group

    async def _decode_all(self, remaining: Iterator[int]) -> None:
        for number in remaining:
            try:
                await self.decoder.decode(self.input(number))
            except ApiError as error:
                if not 400 <= error.status < 500:
                    raise Finding(self._describe(number, error)) from error
            except Exception as error:
                raise Finding(self._describe(number, error)) from error

    def _describe(self, number: int, error: Exception) -> str:
        return f"{error!r}; to repeat: python -m tests.fuzz.codecs --seed {self.seed} --only {number}"

    def check(self, before: PoolState) -> None:
        """Raises Finding when a worker was replaced without a logged reason, or when memory has grown."""
        now = self.state()
        replaced = self.decoder.outcomes["worker lost"] + self.decoder.outcomes["worker stuck"]
        if len(set(before.pids) - set(now.pids)) > replaced:
            raise Finding(f"workers {before.pids} became {now.pids}, but only {replaced} were logged as lost")
        if now.resident_mib > before.resident_mib + _GROWTH_MIB:
            raise Finding(f"resident memory grew from {before.resident_mib} to {now.resident_mib} MiB")

    def state(self) -> PoolState:
        """Return the current state of the pool."""
        family = [psutil.Process(), *map(psutil.Process, self.decoder.pids)]
        return PoolState(self.decoder.pids, max(each.memory_info().rss for each in family) >> 20)


@dataclass(frozen=True)
class PoolState:
    """pids: process IDs of the workers. resident_mib: memory of the largest among them and this process."""

    pids: tuple[int, ...]
    resident_mib: int


async def campaign(numbers: range, seed: int, round_size: int = _ROUND) -> Counter[str]:
    """Decode these inputs and return how many ended with each status. Prints a line for each round. Raises Finding."""
    campaign = Campaign(seed)
    try:
        await campaign.run(range(-min(round_size, 1000), 0))  # warm-up
        before = campaign.state()
        campaign.decoder.outcomes.clear()
        for start in range(0, len(numbers), round_size):
            part, began = numbers[start : start + round_size], time.monotonic()
            await campaign.run(part)
            campaign.check(before)
            rate, memory = len(part) / (time.monotonic() - began), campaign.state().resident_mib
            print(
                f"inputs {part[0]} to {part[-1]}: {rate:.0f} per second, {memory} MiB, workers {before.pids}",
                flush=True,
            )
    finally:
        await campaign.decoder.close()
    return campaign.decoder.outcomes


def run_processes(inputs: int, seed: int, processes: int) -> Counter[str]:
    """Divide the inputs among processes, each with its own decoder, and return the sum of their outcomes.

    Raises Finding as soon as one of them fails, and ends the others.
    """
    outcomes: Counter[str] = Counter()
    limits = [inputs * number // processes for number in range(processes + 1)]
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(_run_process, range(start, stop), seed) for start, stop in pairwise(limits)]
        try:
            for future in as_completed(futures):
                outcomes.update(future.result())
        except BaseException:
            for process in multiprocessing.active_children():
                process.terminate()
            raise
    return outcomes


def _run_process(numbers: range, seed: int) -> Counter[str]:
    logging.getLogger("server.references.decode").setLevel(logging.ERROR)
    return asyncio.run(campaign(numbers, seed))


async def _decode_one(seed: int, number: int) -> None:
    campaign = Campaign(seed)
    try:
        print(len(await campaign.decoder.decode(campaign.input(number))), "samples")
    except ApiError as error:
        print(error.status, error.code, error.message)
    finally:
        print(dict(campaign.decoder.outcomes))
        await campaign.decoder.close()


def main() -> None:
    """Print the number of inputs by outcome, or what failed and how to repeat it."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.codecs", description=__doc__)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same inputs")
    parser.add_argument("--processes", type=int, default=1, help="divide the inputs among this many processes")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="decode only this input of the seed")
    options = parser.parse_args()
    if options.processes < 1:
        parser.error(f"--processes must be at least 1, got {options.processes}")
    if options.only is not None:
        logging.basicConfig()
        asyncio.run(_decode_one(options.seed, options.only))
        return
    began = time.monotonic()
    try:
        outcomes = run_processes(options.inputs, options.seed, options.processes)
    except Finding as error:
        sys.exit(f"failed: {error}")
    print(f"{options.inputs / (time.monotonic() - began):.0f} inputs per second, including the start")
    for outcome, count in sorted(outcomes.items()):
        print(f"{count:8} {outcome}")


if __name__ == "__main__":
    main()
