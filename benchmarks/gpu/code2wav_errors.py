"""Measures the numerical error of Code2Wav for each dtype and several chunk sizes, in dB below the signal.

    python -m benchmarks.gpu.code2wav_errors FOLDER [--frames 48] [--chunks 1 4 12 24] [--device cpu]

FOLDER: a checkpoint. The error is that of the samples before conversion to 16 bits, in dB below the utterance. The
reference is plain torch in float32 on the CPU, which decodes the whole utterance at once. float16, bfloat16 and float32
run the GPU decoder: its kernels, or on a CPU the same steps in plain torch. tf32 (GPU only) is plain torch.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from engine.checkpoint.architecture import CodecArchitecture
from engine.checkpoint.folder import open_checkpoint
from engine.code2wav.cpu import StreamDecoder
from engine.code2wav.loading import compile_kernels
from engine.kernels.codec_ops import Ops
from engine.kernels.codec_tiles import H200_SHARED_BYTES
from engine.models.code2wav import Code2WavModel
from engine.models.code2wav_gpu import RowDecoder, RowWeights, StreamMemory, Workspace
from engine.protocol.request import CODEBOOKS, MAX_CHUNK_FRAMES, SAMPLES_PER_FRAME
from tests.support.torch_codec_ops import TorchOps

CPU = torch.device("cpu")
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
Samples = NDArray[np.float32]
Codes = NDArray[np.int16]
Decode = Callable[[Sequence[Codes]], Samples]
"""Decodes the pieces [frames, 16] of one utterance to its samples."""


class Codec:
    """A checkpoint's decoder, in every dtype."""

    def __init__(self, folder: str, device: torch.device) -> None:
        checkpoint = open_checkpoint(folder)
        self._codec: CodecArchitecture = checkpoint.codec
        self._tensors, self._device = checkpoint.codec_tensors("decoder."), device

    def utterance(self, frames: int) -> Codes:
        """Return random codes [frames, 16]."""
        size = self._codec.decoder.codebook_size
        return np.random.default_rng(frames).integers(size, size=(frames, CODEBOOKS), dtype=np.int16)

    def torch_decoder(self, device: torch.device) -> Decode:
        """Return the reference implementation (plain torch), on ``device``."""
        decoder = StreamDecoder(Code2WavModel(self._tensors, self._codec.decoder, device=device), 1)

        def decode(pieces: Sequence[Codes]) -> Samples:
            row = decoder.begin(None)
            samples = [decoder.decode([row], piece[None])[0] for piece in pieces]
            decoder.end(row)
            return np.concatenate(samples)

        return decode

    def gpu_decoder(self, dtype: torch.dtype, sizes: set[int]) -> Decode:
        """Return the GPU decoder in ``dtype``, without CUDA graphs. sizes: lengths of the pieces, in frames."""
        weights = RowWeights(self._tensors, self._codec.decoder, device=self._device, dtype=dtype)
        decoder = RowDecoder(weights, self._ops(dtype, sizes))

        def decode(pieces: Sequence[Codes]) -> Samples:
            memory, row = StreamMemory(weights, 1), torch.zeros(1, dtype=torch.int64, device=self._device)
            return np.concatenate([self._decode(decoder, weights, memory, row, piece) for piece in pieces])

        return decode

    def _decode(
        self, decoder: RowDecoder, weights: RowWeights, memory: StreamMemory, row: torch.Tensor, piece: Codes
    ) -> Samples:
        frames = len(piece)
        work = torch.zeros(Workspace.size(weights, 1, frames), dtype=weights.dtype, device=self._device)
        samples = torch.empty(1, frames * SAMPLES_PER_FRAME, device=self._device)
        codes = torch.from_numpy(piece[None].astype(np.int64)).to(self._device)
        decoder.decode(codes, row, memory, Workspace(weights, 1, frames, work), samples)
        return samples[0].cpu().numpy()

    def _ops(self, dtype: torch.dtype, sizes: set[int]) -> Ops:
        if self._device.type != "cuda":
            return TorchOps()
        from engine.kernels.codec_triton import TritonOps

        properties = torch.cuda.get_device_properties(self._device)
        shared = getattr(properties, "shared_memory_per_block_optin", H200_SHARED_BYTES)
        compile_kernels(self._codec, dtype, [(1, frames) for frames in sizes], shared)
        return TritonOps(shared=shared)


def split(codes: Codes, frames: int) -> list[Codes]:
    """Split codes into pieces of ``frames`` frames; the last one may be shorter."""
    return np.split(codes, range(frames, len(codes), frames))


def decibels(samples: Samples, reference: Samples) -> float:
    """Return the level of the error in dB below the signal; infinite without an error."""
    error = float((samples.astype(np.float64) - reference).std())
    return 20 * math.log10(float(reference.std()) / error) if error else math.inf


@torch.inference_mode()
def print_errors(folder: str, device: torch.device, frames: int, chunks: Sequence[int]) -> None:
    """Print a table of the errors by dtype and chunk size."""
    codec = Codec(folder, device)
    codes = codec.utterance(frames)
    reference = codec.torch_decoder(CPU)([codes])
    cuts = {chunk: split(codes, chunk) for chunk in chunks}
    sizes = {len(piece) for pieces in cuts.values() for piece in pieces}
    print("| dB below the signal | " + " | ".join(f"chunks of {chunk}" for chunk in cuts) + " |")
    print((len(cuts) + 1) * "|---" + "|")

    def print_row(name: str, decode: Decode) -> None:
        levels = (decibels(decode(pieces), reference) for pieces in cuts.values())
        print(f"| {name} | " + " | ".join(f"{each:.1f}" for each in levels) + " |", flush=True)

    for dtype in DTYPES:
        print_row(str(dtype).removeprefix("torch."), codec.gpu_decoder(dtype, sizes))
    if device.type == "cuda":
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
        print_row("tf32", codec.torch_decoder(device))
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False


def chunk_of(text: str) -> int:
    """Parse a chunk size in frames. Raises ValueError when Code2Wav does not support it."""
    if not 1 <= int(text) <= MAX_CHUNK_FRAMES:
        raise ValueError(text)
    return int(text)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that ``print_errors`` needs in addition."""
    parser.add_argument("--frames", type=int, default=48, help="frames of the decoded utterance")
    parser.add_argument("--chunks", type=chunk_of, nargs="+", default=[1, 4, 12, 24], help="chunk sizes in frames")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--device", type=torch.device, default="cuda" if torch.cuda.is_available() else "cpu")
    add_options(parser)
    args = parser.parse_args()
    print_errors(args.folder, args.device, args.frames, args.chunks)


if __name__ == "__main__":
    main()
