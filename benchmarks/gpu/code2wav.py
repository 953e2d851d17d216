"""Code2Wav on a GPU: how long it takes to load, and each batch.

    python -m benchmarks.gpu.code2wav FOLDER [--dtype float16] [--streams 256] [--max-batch-frames 256] [--only 1x1 ..]
        [--errors]

FOLDER: a checkpoint. A batch's time is a caller's: codes up, decode, samples down, median of 30 and the 95th
percentile, alone on the GPU. ``launch`` is what of it passes until the caller has asked for all of it; ``gpu`` is
without the transfers, batches one after another. ``--errors``: and how far each type's samples are off
(``benchmarks.gpu.code2wav_errors``, which runs on a CPU, too).
"""

from __future__ import annotations

import argparse
import logging
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.gpu.run import code2wav_errors
from benchmarks.lib.report import machine
from engine.code2wav.gpu import GraphedDecoder
from engine.code2wav.loading import load_decoder
from engine.config import Code2WavConfig, EngineConfig, TalkerConfig
from engine.protocol.request import CODEBOOKS

REPEATS = 30
CODES = 512
"""That every published and shipped codec has."""
REFERENCES = (38, 375)
"""Frames of 3 and 30 seconds."""


def seconds(call: Callable[[], object], repeats: int = REPEATS) -> list[float]:
    """Of each call, in order of length."""
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return sorted(taken)


def size_of(text: str) -> tuple[int, int]:
    """(streams, frames) of "1x4"."""
    streams, frames = map(int, text.split("x"))
    return streams, frames


def codes_of(streams: int, frames: int) -> np.ndarray:
    """Any."""
    return np.random.default_rng(frames).integers(CODES, size=(streams, frames, CODEBOOKS), dtype=np.int16)


def time_batches(decoder: GraphedDecoder, sizes: list[tuple[int, int]]) -> None:
    """A line for each size."""
    print("| streams x frames | ms | 95th percentile | launch | gpu | frames/s |\n|---|---|---|---|---|---|")
    for streams, frames in sizes:
        codes = codes_of(streams, frames)
        rows = [decoder.begin(None) for _ in range(streams)]
        decoder.launch(rows, codes).collect()
        taken = seconds(lambda rows=rows, codes=codes: decoder.launch(rows, codes).collect())  # type: ignore[misc]
        launch = launch_seconds(decoder, rows, codes)
        gpu = gpu_seconds(decoder, (streams, frames))
        for row in rows:
            decoder.end(row)
        median, late = statistics.median(taken), taken[int(0.95 * len(taken))]
        print(
            f"| {streams}x{frames} | {median * 1e3:.3f} | {late * 1e3:.3f} | {launch * 1e3:.3f} | {gpu * 1e3:.3f} "
            f"| {streams * frames / median:.0f} |",
            flush=True,
        )


def launch_seconds(decoder: GraphedDecoder, rows: list[int], codes: np.ndarray) -> float:
    """Until all of a batch was asked for."""
    taken = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        pending = decoder.launch(rows, codes)
        taken.append(time.perf_counter() - began)
        pending.collect()
    return statistics.median(taken)


def gpu_seconds(decoder: GraphedDecoder, size: tuple[int, int]) -> float:
    """One launch of several in a row."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with decoder._lane.inside():
        first.record()
        for _ in range(10):
            decoder._launches[size]()
        last.record()
    last.synchronize()
    return first.elapsed_time(last) / 10e3


def time_beginnings(decoder: GraphedDecoder) -> None:
    """Until a stream after a reference can be decoded: the reference is new, and known."""
    for frames in REFERENCES:
        codes = codes_of(1, frames)[0]
        began = time.perf_counter()
        row = decoder.begin(codes)
        torch.cuda.synchronize()
        new = time.perf_counter() - began
        decoder.end(row)

        def again(codes: np.ndarray = codes) -> None:
            row = decoder.begin(codes)
            torch.cuda.synchronize()
            decoder.end(row)

        print(f"after {frames} frames: new {new * 1e3:.1f} ms, known {statistics.median(seconds(again)) * 1e3:.2f} ms")


def main() -> None:
    """Load and time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--max-batch-frames", type=int)
    parser.add_argument("--only", type=size_of, nargs="*", help="streams x frames")
    parser.add_argument("--errors", action="store_true")
    code2wav_errors.add_options(parser)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    limits = Code2WavConfig(dtype=given.dtype, streams=given.streams, max_batch_frames=given.max_batch_frames)
    free, _ = torch.cuda.mem_get_info()
    began = time.monotonic()
    decoder = load_decoder(
        EngineConfig(model=given.folder, device="cuda", talker=TalkerConfig(slots=1), code2wav=limits)
    )
    taken = time.monotonic() - began
    if not isinstance(decoder, GraphedDecoder):
        raise SystemExit("there is no Triton here, or the checkpoint is not one for it")
    print(machine())
    print(f"loaded in {taken:.1f} s, {(free - torch.cuda.mem_get_info()[0]) / 2**30:.1f} GiB")
    time_beginnings(decoder)
    time_batches(decoder, given.only or decoder._sizes)
    if given.errors:
        code2wav_errors.tell(given.folder, torch.device("cuda"), given.frames, given.chunks)


if __name__ == "__main__":
    main()
