"""Benchmarks the engine without HTTP: N concurrent utterances, repeated, in each placement of Code2Wav.

    python benchmarks/cpu/pipeline.py [--model DIR] [--at-once 1 2 4 8] [--threads 1] [--frames 75]

Lengths are forced: every utterance has the same number of frames. Each row shows the time to the first chunk (median
and worst, in ms), seconds of audio per second, and the share of clients with an underrun if they start to play at
their first chunk.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from engine.client.client import EngineClient
from engine.config import Code2WavConfig, EngineConfig, TalkerConfig
from engine.protocol.request import SAMPLE_RATE, SAMPLES_PER_FRAME, EngineInfo, SamplingParams, SpeechRequest
from tests.support.random_checkpoint import write_checkpoint

TEXT = "The quick brown fox jumps over the lazy dog, and nobody is surprised."
FRAME_SECONDS = SAMPLES_PER_FRAME / SAMPLE_RATE
ROUNDS = 4


@dataclass(frozen=True)
class Listening:
    """The result of one client.

    first: seconds to the first chunk. frames: frames received. stalled: whether playback would have had an underrun.
    """

    first: float
    frames: int
    stalled: bool


async def listen(engine: EngineClient, request: SpeechRequest) -> Listening:
    """Request one utterance and read it as fast as it arrives."""
    asked = time.perf_counter()
    first, frames, stalled = 0.0, 0, False
    async for chunk in engine.submit(request):
        now = time.perf_counter() - asked
        first = first or now
        stalled |= now - first > frames * FRAME_SECONDS + 0.001 and frames > 0
        frames += len(chunk.codes)
    return Listening(first, frames, stalled)


def request_for(info: EngineInfo, frames: int, seed: int) -> SpeechRequest:
    """Return a request that seldom ends before ``frames``: sampling is over all codes, and eos is one of hundreds."""
    sampling = SamplingParams(seed=seed, max_new_tokens=frames + 1, temperature=1.5, top_k=0)
    return SpeechRequest(TEXT, speaker=info.speakers[0], sampling=sampling)


async def measure(config: EngineConfig, at_once: list[int], frames: int) -> None:
    """Print a row for each number of concurrent utterances."""
    engine = EngineClient(config)
    began = time.perf_counter()
    await engine.start()
    try:
        info = await engine.wait_ready(600)
        print(f"\nplacement {config.code2wav.placement}: ready in {time.perf_counter() - began:.1f} s")
        await asyncio.gather(*(listen(engine, request_for(info, frames, seed)) for seed in range(2)))
        for count in at_once:
            began = time.perf_counter()
            heard: list[Listening] = []
            for turn in range(ROUNDS):
                requests = [request_for(info, frames, turn * count + number) for number in range(count)]
                heard += await asyncio.gather(*(listen(engine, request) for request in requests))
            seconds = time.perf_counter() - began
            audio = sum(each.frames for each in heard) * FRAME_SECONDS
            firsts = sorted(1000 * each.first for each in heard)
            print(
                f"{count:4d} at once: first chunk {statistics.median(firsts):7.1f} ms, worst {firsts[-1]:7.1f} ms; "
                f"{audio / seconds:6.2f} s of audio a second; "
                f"{sum(each.stalled for each in heard) / len(heard):6.1%} would stall"
            )
    finally:
        await engine.close()


def main() -> None:
    """Measure the placements, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="checkpoint with named voices; a small random one when not given")
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--threads", type=int, help="of each stage; half the cores when not given")
    parser.add_argument("--frames", type=int, default=75)
    parser.add_argument("--placement", nargs="+", default=["thread", "process"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not given.model:
            write_checkpoint(Path(folder), "0b6-custom_voice")
        for placement in given.placement:
            config = EngineConfig(
                model=given.model or folder,
                threads=given.threads,
                talker=TalkerConfig(slots=max(given.at_once)),
                code2wav=Code2WavConfig(placement=placement, streams=2 * max(given.at_once)),
            )
            asyncio.run(measure(config, given.at_once, given.frames))


if __name__ == "__main__":
    main()
