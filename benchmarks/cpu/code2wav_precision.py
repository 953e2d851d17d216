"""Measures the time and the error of Code2Wav with int16 and bfloat16 convolutions, and the error with fp8 ones.

    python -m benchmarks.cpu.code2wav_precision FOLDER [--threads 1 2]

The talker speaks some sentences, and all decoders decode their codes. Prints the signal-to-noise ratios in dB, the
largest errors (full scale is 1), and the milliseconds per frame, measured in turn, for chunks of 13, 4 and 1 frames
(best of ``--rounds``). Without AVX512, bfloat16 is left out. fp8 is simulated in float32, so it has no time: the
weights of the blocks are rounded to e4m3 with a scale for each output channel, and the inputs of their convolutions
with a scale for each chunk.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.checkpoint.folder import Checkpoint, open_checkpoint
from engine.code2wav.cpu import StreamDecoder
from engine.code2wav.precision import dtype_name
from engine.config import EngineConfig, TalkerConfig
from engine.kernels.conv import bfloat16_runs
from engine.models.code2wav import Code2WavModel
from engine.models.code2wav_blocks import SnakeBeta
from engine.prompt.builder import build_prompt
from engine.protocol.request import SamplingParams, SpeechRequest
from engine.talker.loading import load_native_talker
from engine.talker.requests import resolve
from server.bench.workload import SENTENCES

CHUNKS = (13, 4, 1)
CPU = torch.device("cpu")
_BLOCKS = "decoder.1.", "decoder.2.", "decoder.3.", "decoder.4."
_LARGEST_FP8 = 448.0


def spoken_codes(checkpoint: Checkpoint, sentences: int, frames: int) -> list[NDArray[np.int16]]:
    """Return the codes [frames, 16] of sentences, sampled from the talker."""
    config = EngineConfig(model=str(checkpoint.folder), device="cpu", talker=TalkerConfig(slots=1))
    talker = load_native_talker(checkpoint, config, CPU)
    speaker = next(iter(checkpoint.model.talker.speakers))
    spoken = []
    for seed, text in enumerate(SENTENCES[:sentences]):
        request = SpeechRequest(text, speaker=speaker, sampling=SamplingParams(seed=seed, max_new_tokens=frames + 1))
        prompt = build_prompt(request, checkpoint.model, checkpoint.tokenizer)
        talker.admit(0, prompt, resolve(request.sampling, checkpoint.generation))
        codes = []
        while talker.runnable(()):
            codes.append(talker.step(()).codes)
        spoken.append(np.concatenate(codes))
    return spoken


def decode(decoder: StreamDecoder, codes: NDArray[np.int16], chunk: int) -> tuple[NDArray[np.float32], list[float]]:
    """Return the samples of codes [frames, 16], and the seconds of each complete chunk."""
    row = decoder.begin(None)
    samples, seconds = [], []
    for start in range(0, len(codes), chunk):
        piece = codes[None, start : start + chunk]
        began = time.perf_counter()
        samples.append(decoder.decode([row], piece)[0])
        if piece.shape[1] == chunk:
            seconds.append(time.perf_counter() - began)
    decoder.end(row)
    return np.concatenate(samples), seconds


def rounded_to_fp8(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return float32 values, rounded to e4m3 with a scale for each index of the dimensions that are not in ``dims``."""
    scale = x.abs().amax(dims, keepdim=True).clamp(min=1e-12) / _LARGEST_FP8
    return (x / scale).to(torch.float8_e4m3fn).float() * scale


@torch.inference_mode()
def decode_in_fp8(checkpoint: Checkpoint, spoken: list[NDArray[np.int16]]) -> NDArray[np.float32]:
    """Return the samples of all codes, decoded with the convolutions of the blocks in simulated fp8."""
    tensors = checkpoint.codec_tensors("decoder.")
    for name, tensor in tensors.items():
        if name.startswith(_BLOCKS) and name.endswith("conv.weight"):
            outputs = 1 if name.endswith("block.1.conv.weight") else 0  # a transposed convolution is [in, out, taps]
            dims = tuple(dim for dim in range(3) if dim != outputs)
            tensors[name] = rounded_to_fp8(tensor.float(), dims)
    decoder = StreamDecoder(Code2WavModel(tensors, checkpoint.codec.decoder, device=CPU), 1)
    write = SnakeBeta.write

    def write_rounded(self: SnakeBeta, x: Tensor, out: Tensor) -> Tensor:
        return out.copy_(rounded_to_fp8(write(self, x, out), (0, 1, 2)))

    with patch.object(SnakeBeta, "write", write_rounded):
        return np.concatenate([decode(decoder, codes, CHUNKS[0])[0] for codes in spoken])


def main() -> None:
    """Print the error, then the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a checkpoint with named voices")
    parser.add_argument("--sentences", type=int, default=3)
    parser.add_argument("--frames", type=int, default=39, help="maximum frames of a sentence")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(args.threads[0])
    checkpoint = open_checkpoint(str(args.folder))
    spoken = spoken_codes(checkpoint, args.sentences, args.frames)
    for threads in args.threads:
        _compare(checkpoint, spoken, threads, args.rounds)


def _compare(checkpoint: Checkpoint, spoken: list[NDArray[np.int16]], threads: int, rounds: int) -> None:
    """Print the errors and the times with ``threads`` threads, for which the decoders are loaded."""
    torch.set_num_threads(threads)
    architecture = checkpoint.codec.decoder
    decoders = {}
    for dtype in [torch.float32, torch.int16] + [torch.bfloat16] * bfloat16_runs():
        with torch.inference_mode():
            model = Code2WavModel(
                checkpoint.codec_tensors("decoder."), architecture, device=CPU, dtype=dtype, release=True
            )
        decoders[dtype] = StreamDecoder(model, 1)
    samples = {
        dtype: np.concatenate([decode(decoder, codes, CHUNKS[0])[0] for codes in spoken])
        for dtype, decoder in decoders.items()
    }
    exact = samples.pop(torch.float32)
    print(f"{threads} threads, {len(exact) / 24_000:.1f} s, largest sample {np.abs(exact).max():.2f}")
    named = {dtype_name(dtype): rounded for dtype, rounded in samples.items()}
    for name, rounded in {**named, "fp8, simulated": decode_in_fp8(checkpoint, spoken)}.items():
        error = rounded - exact
        ratio, largest = 20 * np.log10(exact.std() / error.std()), np.abs(error).max()
        print(f"  {name}: signal-to-noise ratio {ratio:.1f} dB, largest error {largest:.4f}")
    for chunk in CHUNKS:
        best = dict.fromkeys(decoders, float("inf"))
        for _ in range(rounds):
            for dtype, decoder in decoders.items():
                seconds = min(min(decode(decoder, codes, chunk)[1], default=float("inf")) for codes in spoken)
                best[dtype] = min(best[dtype], 1000 * seconds / chunk)
        times = ", ".join(f"{dtype_name(dtype)} {ms:.1f} ms" for dtype, ms in best.items())
        print(f"  chunks of {chunk}, per frame: {times}")


if __name__ == "__main__":
    main()
