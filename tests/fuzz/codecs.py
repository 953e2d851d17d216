"""Feed mutated recordings of every format to the decoder: ``python -m tests.fuzz.codecs --inputs 495000 [--seed 1]``.

It drives the pool of decoder workers directly, with several recordings in flight, and fails where a recording gives
anything but samples or a 4xx error, where a worker is replaced without a logged reason, or where memory grows.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import psutil

from server.api_error import ApiError
from server.references.decode import Decoder
from server.settings import Limits
from tests.fuzz.answers import Found
from tests.fuzz.mutation import Mutator
from tests.fuzz.recordings import recordings
from tests.server.containers import KINDS, encode_recording
from tests.server.recordings import tone

LIMITS = Limits(reference_min_seconds=0.05, reference_max_seconds=1.0, reference_max_bytes=2**20)
_SECONDS = 0.2
_IN_FLIGHT = 6
_ROUND = 5000
_GROWTH_MIB = 32


def corpus() -> dict[str, bytes]:
    """Short valid recordings by format."""
    more = {
        name: encode_recording(tone(_SECONDS * rate / 16_000)[: int(_SECONDS * rate)], container, codec, rate, options)
        for name, (container, codec, rate, options) in KINDS.items()
    }
    return recordings(_SECONDS) | more


@dataclass
class Campaign:
    """Inputs of one seed, decoded by one pool."""

    seed: int
    decoder: Decoder = field(default_factory=lambda: Decoder(LIMITS))
    files: dict[str, bytes] = field(default_factory=corpus)

    def input(self, number: int) -> bytes:
        """Input ``number`` of the seed, whatever came before."""
        random = Random(f"{self.seed} {number}")
        files = list(self.files.values())
        return Mutator(random).recording(random.choice(files), files)

    async def run(self, numbers: range) -> None:
        """Decode these inputs, several at once. Raises Found."""
        rest = iter(numbers)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_IN_FLIGHT):
                tasks.create_task(self._run(rest))

    async def _run(self, rest: Iterator[int]) -> None:
        for number in rest:
            try:
                await self.decoder.decode(self.input(number))
            except ApiError as error:
                if not 400 <= error.status < 500:
                    raise Found(self._found(number, error)) from error
            except Exception as error:
                raise Found(self._found(number, error)) from error

    def _found(self, number: int, error: Exception) -> str:
        return f"{error!r}; again: python -m tests.fuzz.codecs --seed {self.seed} --only {number}"

    def check(self, before: Held) -> None:
        """Raises Found where workers were replaced for no reason that the log tells, or memory has grown."""
        now = self.held()
        replaced = self.decoder.outcomes["worker lost"] + self.decoder.outcomes["worker stuck"]
        if len(set(before.pids) - set(now.pids)) > replaced:
            raise Found(f"workers {before.pids} are {now.pids}, and {replaced} were lost")
        if now.resident > before.resident + _GROWTH_MIB:
            raise Found(f"resident memory grew from {before.resident} to {now.resident} MiB")

    def held(self) -> Held:
        """What this process and the workers hold now."""
        family = [psutil.Process(), *map(psutil.Process, self.decoder.pids)]
        return Held(self.decoder.pids, max(each.memory_info().rss for each in family) >> 20)


@dataclass(frozen=True)
class Held:
    """Process IDs of the workers; MiB of the largest of this process and them."""

    pids: tuple[int, ...]
    resident: int


async def campaign(inputs: int, seed: int, round_size: int = _ROUND) -> Counter[str]:
    """Decode so many inputs; how many ended with each status. Prints a line a round. Raises Found."""
    campaign = Campaign(seed)
    try:
        await campaign.run(range(-min(round_size, 1000), 0))
        before = campaign.held()
        campaign.decoder.outcomes.clear()
        for start in range(0, inputs, round_size):
            began, count = time.monotonic(), min(round_size, inputs - start)
            await campaign.run(range(start, start + count))
            campaign.check(before)
            speed, memory = count / (time.monotonic() - began), campaign.held().resident
            print(f"{start + count:8} inputs, {speed:5.0f} a second, {memory} MiB, workers {before.pids}", flush=True)
    finally:
        await campaign.decoder.close()
    return campaign.decoder.outcomes


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
    """Ends with counts of outcomes, or with what was found and how to repeat it."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.codecs", description=__doc__)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1, help="the same seed is the same inputs")
    parser.add_argument("--only", type=int, help="decode this input of the seed alone")
    given = parser.parse_args()
    if given.only is not None:
        logging.basicConfig()
        asyncio.run(_decode_one(given.seed, given.only))
        return
    logging.getLogger("server.references.decode").setLevel(logging.ERROR)
    began = time.monotonic()
    outcomes = asyncio.run(campaign(given.inputs, given.seed))
    print(f"{given.inputs / (time.monotonic() - began):.0f} inputs a second, with the start")
    for outcome, count in sorted(outcomes.items()):
        print(f"{count:8} {outcome}")


if __name__ == "__main__":
    main()
