"""Measures Code2Wav on a GPU: loading time, and the time of each batch size.

    python -m benchmarks.gpu.code2wav FOLDER [--dtype float16] [--streams 256] [--max-batch-frames 256] [--only 1x1 ..]
        [--launches] [--errors]

FOLDER: a checkpoint. The time of a batch is that of its caller: copy the codes to the GPU, decode, copy the samples
back; median of 30 and 95th percentile, on an otherwise idle GPU. ``launch`` is the part until everything is enqueued.
``gpu`` is the time of consecutive batches without the copies. ``--launches`` adds the time of each kernel in a batch,
from torch's profiler: launches with the same grid are summed. ``--errors`` adds the error of the samples for each dtype
(``benchmarks.gpu.code2wav_errors``, which also runs on a CPU).
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.gpu import code2wav_errors
from benchmarks.lib.report import machine
from engine.code2wav.gpu import GraphedDecoder
from engine.code2wav.loading import load_decoder
from engine.config import Code2WavConfig, EngineConfig, TalkerConfig
from engine.precompile import precompiling
from engine.protocol.request import CODEBOOKS

REPEATS = 30
CODES = 512
"""Number of codes that every published and shipped codec has."""
REFERENCES = (38, 375)
"""Lengths in frames of references of 3 s and 30 s."""


def seconds(call: Callable[[], object], repeats: int = REPEATS) -> list[float]:
    """Return the sorted durations of ``repeats`` calls."""
    durations = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        durations.append(time.perf_counter() - began)
    return sorted(durations)


def size_of(text: str) -> tuple[int, int]:
    """Parse a batch size such as "1x4" to (streams, frames)."""
    streams, frames = map(int, text.split("x"))
    return streams, frames


def codes_of(streams: int, frames: int) -> np.ndarray:
    """Return random codes [streams, frames, 16]."""
    return np.random.default_rng(frames).integers(CODES, size=(streams, frames, CODEBOOKS), dtype=np.int16)


def time_batches(decoder: GraphedDecoder, sizes: list[tuple[int, int]]) -> None:
    """Print a row for each batch size."""
    print("| streams x frames | ms | 95th percentile | launch | gpu | frames/s |\n|---|---|---|---|---|---|")
    for streams, frames in sizes:
        codes = codes_of(streams, frames)
        rows = [decoder.begin(None) for _ in range(streams)]
        decoder.launch(rows, codes).collect()
        durations = seconds(partial(_launch_and_collect, decoder, rows, codes))
        launch = launch_seconds(decoder, rows, codes)
        gpu = gpu_seconds(decoder, (streams, frames))
        for row in rows:
            decoder.end(row)
        median, p95 = statistics.median(durations), durations[int(0.95 * len(durations))]
        print(
            f"| {streams}x{frames} | {median * 1e3:.3f} | {p95 * 1e3:.3f} | {launch * 1e3:.3f} | {gpu * 1e3:.3f} "
            f"| {streams * frames / median:.0f} |",
            flush=True,
        )


def _launch_and_collect(decoder: GraphedDecoder, rows: list[int], codes: np.ndarray) -> None:
    decoder.launch(rows, codes).collect()


def launch_seconds(decoder: GraphedDecoder, rows: list[int], codes: np.ndarray) -> float:
    """Return the median seconds until all work of a batch is enqueued."""
    durations = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        pending = decoder.launch(rows, codes)
        durations.append(time.perf_counter() - began)
        pending.collect()
    return statistics.median(durations)


def gpu_seconds(decoder: GraphedDecoder, size: tuple[int, int]) -> float:
    """Return the mean seconds of consecutive launches."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with decoder._device_stream.context():
        first.record()
        for _ in range(10):
            decoder._launches[size]()
        last.record()
    last.synchronize()
    return float(first.elapsed_time(last)) / 10e3


def profile_launches(decoder: GraphedDecoder, size: tuple[int, int]) -> dict[tuple[str, tuple[int, ...]], list[float]]:
    """Return the microseconds of every launch in ``REPEATS`` batches, by kernel and grid."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler, decoder._device_stream.context():
        for _ in range(REPEATS):
            decoder._launches[size]()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(file))
        events = json.loads(file.read_text())["traceEvents"]
    launches = defaultdict(list)
    for event in events:
        if event.get("cat") == "kernel":
            launches[event["name"], tuple(event["args"]["grid"])].append(event["dur"])
    return launches


def print_launches(decoder: GraphedDecoder, sizes: list[tuple[int, int]]) -> None:
    """Print the kernels of each batch size, the longest total first."""
    for streams, frames in sizes:
        launches = profile_launches(decoder, (streams, frames))
        totals = {key: sum(durations) / REPEATS for key, durations in launches.items()}
        count = sum(map(len, launches.values())) // REPEATS
        print(f"\n{streams}x{frames}: {count} launches, {sum(totals.values()) / 1e3:.3f} ms")
        print("| kernel | grid | launches | us each | us |\n|---|---|---|---|---|")
        for (name, grid), total in sorted(totals.items(), key=lambda item: -item[1]):
            each = len(launches[name, grid]) / REPEATS
            print(f"| {name[:40]} | {'x'.join(map(str, grid))} | {each:g} | {total / each:.1f} | {total:.1f} |")


def time_begin(decoder: GraphedDecoder) -> None:
    """Print the time until a stream with a reference can be decoded, for a cache miss and a cache hit."""
    for frames in REFERENCES:
        codes = codes_of(1, frames)[0]
        began = time.perf_counter()
        row = decoder.begin(codes)
        torch.cuda.synchronize()
        miss = time.perf_counter() - began
        decoder.end(row)

        def begin_again(codes: np.ndarray = codes) -> None:
            row = decoder.begin(codes)
            torch.cuda.synchronize()
            decoder.end(row)

        hit = statistics.median(seconds(begin_again))
        print(f"reference of {frames} frames: cache miss {miss * 1e3:.1f} ms, hit {hit * 1e3:.2f} ms")


def main() -> None:
    """Load the decoder and time it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="a checkpoint")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--max-batch-frames", type=int)
    parser.add_argument("--only", type=size_of, nargs="*", help="batch sizes, streams x frames")
    parser.add_argument("--launches", action="store_true", help="also print the time of each kernel in a batch")
    parser.add_argument("--errors", action="store_true", help="also print the error of the samples for each dtype")
    code2wav_errors.add_options(parser)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    limits = Code2WavConfig(dtype=args.dtype, streams=args.streams, max_batch_frames=args.max_batch_frames)
    free, _ = torch.cuda.mem_get_info()
    began = time.monotonic()
    config = EngineConfig(model=args.folder, device="cuda", talker=TalkerConfig(slots=1), code2wav=limits)
    with precompiling(config, ahead=True):
        pass
    decoder = load_decoder(config)
    load_seconds = time.monotonic() - began
    if not isinstance(decoder, GraphedDecoder):
        raise SystemExit("the GPU decoder is not available: Triton is not installed, or it cannot run this checkpoint")
    print(machine())
    print(f"loaded in {load_seconds:.1f} s, {(free - torch.cuda.mem_get_info()[0]) / 2**30:.1f} GiB")
    time_begin(decoder)
    time_batches(decoder, args.only or decoder._sizes)
    if args.launches:
        print_launches(decoder, args.only or decoder._sizes)
    if args.errors:
        code2wav_errors.print_errors(args.folder, torch.device("cuda"), args.frames, args.chunks)


if __name__ == "__main__":
    main()
