"""Compares codecs on the same pieces of speech. Prints one line for each.

python3 -m scripts.train_pocket.codec.compare --audio DIR CODEC/codec.safetensors ...
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor

from scripts.train_pocket import config, folder
from scripts.train_pocket.codec.audio import Audio, shards
from scripts.train_pocket.codec.losses import MelDistance
from scripts.train_pocket.codec.model import Codec
from scripts.train_pocket.codec.passes import PIECE_FRAMES, effective_dimensions

_SHARDS, _PIECES, _SEED = 4, 64, 5


class CodecReport(NamedTuple):
    """mel: distance of the output. rank: effective dimensions of acoustic latents. used: codes in use per codebook."""

    mel: float
    rank: float
    used: list[int]


@torch.inference_mode()
def measure(codec: Codec, samples: Tensor) -> CodecReport:
    """Measure a codec on samples [batch, frames * 1920]."""
    quantized = codec(samples)
    decoded = codec.decoder.samples(codec.decoder.latents(quantized.vectors))
    mel = MelDistance().to(samples.device)(decoded, samples)
    size = codec.sizes.decoder.codebook_size
    used = [_perplexity(codes, size) for codes in quantized.codes.flatten(0, 1).T]
    return CodecReport(mel.item(), effective_dimensions(quantized.targets[1]).item(), used)


def _perplexity(codes: Tensor, size: int) -> int:
    """Return the perplexity of the codes."""
    shares = torch.bincount(codes, minlength=size) / len(codes)
    return round(torch.special.entr(shares).sum().exp().item())


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("codecs", type=Path, nargs="+", help="codec.safetensors")
    parser.add_argument("--audio", type=Path, required=True, help="folder with the teacher's shards")
    parser.add_argument("--pieces", type=int, default=_PIECES, help="number of pieces of 5 s")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    device = torch.device(options.device)
    audio = Audio(shards(options.audio)[:_SHARDS], device)
    samples = audio.draw(options.pieces, PIECE_FRAMES, torch.Generator(device).manual_seed(_SEED)).samples
    for file in options.codecs:
        codec = Codec(folder.codec_architecture(config.load()))
        codec.load_published(load_file(file))
        report = measure(codec.to(device).eval(), samples)
        print(f"{file}: mel {report.mel:.3f} rank {report.rank:.1f} codes used {report.used}", flush=True)


if __name__ == "__main__":
    main()
