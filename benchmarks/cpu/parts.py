"""Measures the cost of a frame in each stage, on one thread.

    python -m benchmarks.cpu.parts FOLDER [--weights exact int8 int4]

Measures CPU time of the thread, not wall-clock time, so that other load on the machine matters less. For the talker
with its code predictor: a step of 1, 2, 4 and 8 utterances (median of the steps, best of ``--rounds``). For Code2Wav:
batches of streams and frames (best).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import torch

from engine.checkpoint.folder import Checkpoint, open_checkpoint
from engine.code2wav.base import Decoder
from engine.code2wav.loading import load_decoder
from engine.config import EngineConfig
from engine.device.selection import prepare_torch
from engine.prompt.builder import build_prompt
from engine.protocol.request import CODEBOOKS, SamplingParams, SpeechRequest, WeightFormat
from engine.talker.loading import load_native_talker
from engine.talker.native.talker import NativeTalker
from engine.talker.requests import resolve

TEXT = "The quick brown fox jumps over the lazy dog, and nobody is surprised."
ROWS = (1, 2, 4, 8)
BATCHES = ((1, 1), (1, 2), (1, 6), (1, 12), (2, 1), (2, 4), (4, 1), (4, 2))
REPEATS = 12


def step_ms(talker: NativeTalker, checkpoint: Checkpoint, rows: int, frames: int) -> float:
    """Return the median milliseconds of a step of ``rows`` utterances that start together, without prefill steps."""
    speaker = next(iter(checkpoint.model.talker.speakers))
    for seed in range(rows):
        request = SpeechRequest(TEXT, speaker=speaker, sampling=SamplingParams(seed=seed, max_new_tokens=frames + 1))
        prompt = build_prompt(request, checkpoint.model, checkpoint.tokenizer)
        talker.admit(seed, prompt, resolve(request.sampling, checkpoint.generation))
    times = []
    while talker.runnable(()):
        began = time.thread_time()
        if len(talker.step(()).streams) == rows:
            times.append(time.thread_time() - began)
    return 1000 * statistics.median(times[rows:])


def measure_talker(
    checkpoint: Checkpoint, config: EngineConfig, rounds: int, at_once: Sequence[int], frames: int
) -> None:
    """Print the time of a step with the configured weights."""
    talker = load_native_talker(checkpoint, config, torch.device("cpu"))
    for rows in at_once:
        step = min(step_ms(talker, checkpoint, rows, frames) for _ in range(rounds))
        print(f"talker, {config.talker.weights}, {rows} at once: {step:5.2f} ms per step")


def chunk_ms(decoder: Decoder, codes: int, streams: int, frames: int) -> float:
    """Return the minimum milliseconds of decoding ``frames`` frames of ``streams`` streams.

    codes: codebook size.
    """
    random = np.random.default_rng(0)
    rows = [decoder.begin(None) for _ in range(streams)]
    times = []
    for _ in range(REPEATS):
        chunk = random.integers(0, codes, (streams, frames, CODEBOOKS)).astype(np.int16)
        began = time.thread_time()
        decoder.decode(rows, chunk)
        times.append(time.thread_time() - began)
    for row in rows:
        decoder.end(row)
    return 1000 * min(times)


def main() -> None:
    """Measure the talker, then Code2Wav."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a checkpoint with named voices")
    parser.add_argument("--rounds", type=int, default=4, help="repetitions, of which the best counts")
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS, help="utterances at once")
    parser.add_argument("--frames", type=int, default=40, help="frames of an utterance")
    parser.add_argument("--weights", choices=get_args(WeightFormat), nargs="+", default=["exact"])
    args = parser.parse_args()
    config = EngineConfig(model=str(args.folder), device="cpu", threads=1)
    prepare_torch(config)
    checkpoint = open_checkpoint(config.model)
    for weights in args.weights:
        talker_config = config.talker.model_copy(update={"weights": weights})
        measure_talker(
            checkpoint, config.model_copy(update={"talker": talker_config}), args.rounds, args.rows, args.frames
        )
    decoder = load_decoder(config)
    for streams, frames in BATCHES:
        chunk = chunk_ms(decoder, checkpoint.codec.decoder.codebook_size, streams, frames)
        print(
            f"Code2Wav, {streams} x {frames:2d} frames: {chunk:6.2f} ms, {chunk / streams / frames:5.2f} ms per frame"
        )


if __name__ == "__main__":
    main()
