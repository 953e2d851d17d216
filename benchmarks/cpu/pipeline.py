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
class ClientResult:
    """The result of one client.

    first: seconds to the first chunk. frames: frames received. underrun: whether playback would have had one.
    """

    first: float
    frames: int
    underrun: bool


async def receive(engine: EngineClient, request: SpeechRequest) -> ClientResult:
    """Request one utterance and read it as fast as it arrives."""
    began = time.perf_counter()
    first, frames, underrun = 0.0, 0, False
    async for chunk in engine.submit(request):
        now = time.perf_counter() - began
        first = first or now
        underrun |= now - first > frames * FRAME_SECONDS + 0.001 and frames > 0
        frames += len(chunk.codes)
    return ClientResult(first, frames, underrun)


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
        await asyncio.gather(*(receive(engine, request_for(info, frames, seed)) for seed in range(2)))
        for count in at_once:
            began = time.perf_counter()
            results: list[ClientResult] = []
            for turn in range(ROUNDS):
                requests = [request_for(info, frames, turn * count + number) for number in range(count)]
                results += await asyncio.gather(*(receive(engine, request) for request in requests))
            seconds = time.perf_counter() - began
            audio = sum(each.frames for each in results) * FRAME_SECONDS
            firsts = sorted(1000 * each.first for each in results)
            print(
                f"{count:4d} at once: first chunk {statistics.median(firsts):7.1f} ms, worst {firsts[-1]:7.1f} ms; "
                f"{audio / seconds:6.2f} s of audio per second; "
                f"{sum(each.underrun for each in results) / len(results):6.1%} with underruns"
            )
    finally:
        await engine.close()


def main() -> None:
    """Measure the placements, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="checkpoint with named voices; default a small random one")
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 2, 4, 8], help="numbers of concurrent utterances")
    parser.add_argument("--threads", type=int, help="threads of each stage; default half the cores")
    parser.add_argument("--frames", type=int, default=75, help="frames of each utterance")
    parser.add_argument("--placement", nargs="+", default=["thread", "process"])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not args.model:
            write_checkpoint(Path(folder), "0b6-custom_voice")
        for placement in args.placement:
            config = EngineConfig(
                model=args.model or folder,
                threads=args.threads,
                talker=TalkerConfig(slots=max(args.at_once)),
                code2wav=Code2WavConfig(placement=placement, streams=2 * max(args.at_once)),
            )
            asyncio.run(measure(config, args.at_once, args.frames))


if __name__ == "__main__":
    main()
