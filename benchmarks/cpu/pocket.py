"""Benchmarks a served checkpoint from the client's view: startup, first audio, real-time factor and concurrency.

    python -m benchmarks.cpu.pocket [FOLDER] [--cores 0,1] [--at-once 1 2 4 6] [--repeats 8] [--config FILE]

FOLDER defaults to the model of the configuration, configs/pocket.yaml. Prints

- ready: time from ``sonant serve`` to a successful /ready, best and median of ``--starts``;
- first audio: time from the request to the first audible sample at the client, one request at a time;
- real-time factor: seconds until the last sample of a single stream, per second of its audio;
- at once: N clients that start together and play from their first audible sample on. ``late`` is the number of clients
  with an underrun, and by how much the latest sample missed its deadline. A number is sustained if no client had an
  underrun in any round; then it prints the smallest amount of buffered audio of any client.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import yaml

from benchmarks.lib.report import machine
from benchmarks.lib.serving import ROOT, TIMEOUT_S, running_server

RATE = 24_000
AUDIBLE = 32
"""-60 dBFS in 16 bits."""
TEXTS = (
    "The quick brown fox jumps over the lazy dog, and nobody is surprised.",
    "She opened the window because the evening air had finally become cool.",
    "Trains to the coast leave every half an hour from the northern platform.",
    "There is a small bakery at the corner where the bread is always warm.",
    "We walked along the river until the lights of the town were out of sight.",
    "Please remember to water the plants on the balcony before you go to bed.",
)


@dataclass(frozen=True)
class ClientTimes:
    """The times of one client in seconds.

    first: until the first audible sample. last: until the last sample. audio: length of the audio.
    late: how late the latest sample was; negative if all were on time.
    """

    first: float
    last: float
    audio: float
    late: float


async def play_sentence(client: httpx.AsyncClient, text: str, seed: int) -> ClientTimes:
    """Send one streaming request and return its times; ``late`` is positive after an underrun."""
    body = {"input": text, "response_format": "pcm", "seed": seed}
    began = time.perf_counter()
    first, audible_at, samples, late = 0.0, 0, 0, float("-inf")
    async with client.stream("POST", "/v1/audio/speech", json=body) as response:
        response.raise_for_status()
        async for piece in response.aiter_raw():
            now = time.perf_counter() - began
            if first:
                late = max(late, now - first - (samples - audible_at) / RATE)
            else:
                loud = np.flatnonzero(np.abs(np.frombuffer(piece[: len(piece) // 2 * 2], "<i2")) > AUDIBLE)
                if len(loud):
                    first, audible_at = now, samples + int(loud[0])
            samples += len(piece) // 2
    return ClientTimes(first, time.perf_counter() - began, samples / RATE, late)


async def measure_single(client: httpx.AsyncClient, repeats: int) -> None:
    """Print first audio and real-time factor of single streams. The very first request is reported separately."""
    very_first = await play_sentence(client, TEXTS[0], 0)
    times = [await play_sentence(client, TEXTS[turn % len(TEXTS)], turn) for turn in range(repeats)]
    firsts = [1000 * each.first for each in times]
    factors = [each.last / each.audio for each in times]
    print(f"first audio       {_summary(firsts, 0)} ms; the very first {1000 * very_first.first:.0f} ms")
    print(f"real-time factor  {_summary(factors, 3)}")


async def measure_concurrent(client: httpx.AsyncClient, count: int, repeats: int) -> None:
    """Run ``count`` concurrent clients, ``repeats`` times, and print their results."""
    times: list[ClientTimes] = []
    began = time.perf_counter()
    for turn in range(repeats):
        texts = [TEXTS[(turn + number) % len(TEXTS)] for number in range(count)]
        clients = [play_sentence(client, text, turn * count + number) for number, text in enumerate(texts)]
        times += await asyncio.gather(*clients)
    seconds = time.perf_counter() - began
    late = [each.late for each in times if each.late > 0]
    worst = 1000 * max(each.late for each in times)
    verdict = (
        f"{len(late)} of {len(times)} late, by up to {worst:.0f} ms"
        if late
        else f"sustained, at least {-worst:.0f} ms buffered"
    )
    firsts = [1000 * each.first for each in times]
    audio = sum(each.audio for each in times) / seconds
    print(
        f"{count:3d} at once       first audio {_summary(firsts, 0)} ms; {audio:.1f} s of audio per second; {verdict}"
    )


def _summary(values: Sequence[float], digits: int) -> str:
    figures = {"best": min(values), "median": statistics.median(values), "worst": max(values)}
    return ", ".join(f"{name} {value:.{digits}f}" for name, value in figures.items())


async def measure(address: str, at_once: Sequence[int], repeats: int) -> None:
    """Run all measurements on one running server."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=address, timeout=TIMEOUT_S, limits=limits) as client:
        await measure_single(client, repeats)
        for count in at_once:
            await measure_concurrent(client, count, max(1, repeats // 2))


def config_for(config: Path, model: Path | None, folder: Path) -> Path:
    """Return a configuration file in which ``model`` replaces the model of ``config``."""
    if model is None:
        return config
    settings = yaml.safe_load(config.read_text())
    settings["engine"] = {**settings["engine"], "model": str(model.resolve())}
    written = folder / config.name
    written.write_text(yaml.safe_dump(settings))
    return written


def main() -> None:
    """Start the server a few times, then run the measurements on the last one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?", help="a checkpoint folder")
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "pocket.yaml")
    parser.add_argument("--cores", default="0,1", help="CPU cores of the server; the clients run on any core")
    parser.add_argument("--at-once", type=int, nargs="*", default=[1, 2, 4, 6], help="numbers of concurrent clients")
    parser.add_argument("--repeats", type=int, default=8, help="number of single streams")
    parser.add_argument("--starts", type=int, default=3, help="number of times that the server is started")
    args = parser.parse_args()
    cores = [int(core) for core in args.cores.split(",")]
    print("{cpu}; Python {python}, torch {torch}".format(**machine()) + f"; {len(cores)} cores for the server")
    with tempfile.TemporaryDirectory() as folder:
        config, log = config_for(args.config, args.model, Path(folder)), Path(folder, "log")
        readiness = []
        for _ in range(args.starts - 1):
            with running_server(config, log, cores=cores) as (_, seconds):
                readiness.append(seconds)
        with running_server(config, log, cores=cores) as (address, seconds):
            print(f"ready             {_summary([*readiness, seconds], 1)} s")
            asyncio.run(measure(address, args.at_once, args.repeats))


if __name__ == "__main__":
    main()
