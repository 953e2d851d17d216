"""Measures the engine without HTTP: clients in one process, each with one utterance after another.

    python -m benchmarks.gpu.engine_alone FOLDER [--config FILE] [--at-once 64 128 256] [--each 8] [--json FILE]

The engine runs as in ``sonant serve`` with the configuration, and texts and lengths are those of ``sonant bench
--frames text``. So the difference between the figures and those of ``benchmarks.http.serve -c N`` is the cost of HTTP.
Prints for each number of clients the time to the first chunk (median, 95th percentile), seconds of audio per second,
and CPU time of this process as a share of one core. ``benchmarks.cpu.pipeline`` compares placements of Code2Wav with
utterances that begin together.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.lib.report import machine
from benchmarks.lib.serving import ROOT
from engine.client.client import EngineClient
from engine.protocol.request import SAMPLE_RATE, SAMPLES_PER_FRAME, SamplingParams, SpeechRequest
from server.bench.workload import SENTENCES, Workload
from server.settings import load_settings

_LOAD_SECONDS = 600.0
_WORKLOAD = Workload(SENTENCES, frames="text")


@dataclass(slots=True)
class Load:
    """The results of one load so far. left: requests that no client has taken yet."""

    left: int
    first_chunk_seconds: list[float] = field(default_factory=list)
    frames: int = 0


async def use(engine: EngineClient, load: Load) -> None:
    """Request utterances one after another until all are taken."""
    while load.left:
        load.left -= 1
        number = load.left
        sampling = SamplingParams(seed=number, max_new_tokens=_WORKLOAD.frames_of(number))
        request = SpeechRequest(SENTENCES[number % len(SENTENCES)], speaker=engine.info.speakers[0], sampling=sampling)
        began, first = time.perf_counter(), 0.0
        async for chunk in engine.submit(request):
            first = first or time.perf_counter() - began
            load.frames += len(chunk.codes)
        load.first_chunk_seconds.append(first)


async def measure(engine: EngineClient, at_once: int, each: int) -> dict[str, float]:
    """Return the figures of ``at_once`` clients with ``each`` utterances on average."""
    load = Load(at_once * each)
    cpu, began = time.process_time(), time.perf_counter()
    await asyncio.gather(*(use(engine, load) for _ in range(at_once)))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    median, p95 = 1000 * np.quantile(load.first_chunk_seconds, (0.5, 0.95))
    audio = load.frames * SAMPLES_PER_FRAME / SAMPLE_RATE
    return {"at_once": at_once, "first_ms": median, "p95_ms": p95, "audio": audio / seconds, "busy": cpu / seconds}


async def run(args: argparse.Namespace) -> list[dict[str, float]]:
    """Start the engine, and print and return the figures of each load."""
    settings = load_settings(args.config, {"engine": {"model": str(args.folder)}})
    assert settings.engine is not None
    engine, results = EngineClient(settings.engine), []
    await engine.start()
    try:
        await engine.wait_ready(_LOAD_SECONDS)
        await measure(engine, 8, 2)
        for at_once in args.at_once:
            figures = await measure(engine, at_once, args.each)
            print(
                "{at_once:4.0f} at once: first chunk {first_ms:.1f} / {p95_ms:.1f} ms, {audio:,.0f} audio s/s, "
                "{busy:.0%} of a core in the client".format(**figures),
                flush=True,
            )
            results.append(figures)
    finally:
        await engine.close()
    return results


def main() -> None:
    """Parse the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a checkpoint with named voices")
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "h200-1.7b.yaml")
    parser.add_argument("--at-once", type=int, nargs="+", default=[64, 128, 256], help="numbers of clients")
    parser.add_argument("--each", type=int, default=8, help="utterances of each client, on average")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    args = parser.parse_args()
    print("{cpu}, {cores} cores; Python {python}, torch {torch}".format(**machine()), flush=True)
    results = asyncio.run(run(args))
    if args.json:
        args.json.write_text(json.dumps({"machine": machine(), "loads": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
