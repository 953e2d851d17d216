"""Which of several codecs is best, on the same pieces of speech: one line each.

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
from scripts.train_pocket.codec.passes import HEARD, dimensions

_SHARDS, _PIECES, _SEED = 4, 64, 5


class Standing(NamedTuple):
    """mel: distance of what comes out; rank: dimensions of the acoustic latent; used: codes in use, each codebook."""

    mel: float
    rank: float
    used: list[int]


@torch.inference_mode()
def standing(codec: Codec, samples: Tensor) -> Standing:
    """How a codec does on samples [batch, frames * 1920]."""
    quantized = codec(samples)
    made = codec.decoder.samples(codec.decoder.latents(quantized.vectors))
    mel = MelDistance().to(samples.device)(made, samples)
    size = codec.sizes.decoder.codebook_size
    used = [_perplexity(codes, size) for codes in quantized.codes.flatten(0, 1).T]
    return Standing(mel.item(), dimensions(quantized.targets[1]).item(), used)


def _perplexity(codes: Tensor, size: int) -> int:
    """How many codes, evenly used, would be as hard to guess."""
    shares = torch.bincount(codes, minlength=size) / len(codes)
    return round(torch.special.entr(shares).sum().exp().item())


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("codecs", type=Path, nargs="+", help="codec.safetensors")
    parser.add_argument("--audio", type=Path, required=True, help="folder of the teacher's shards")
    parser.add_argument("--pieces", type=int, default=_PIECES, help="of 5 s")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    device = torch.device(options.device)
    audio = Audio(shards(options.audio)[:_SHARDS], device)
    samples = audio.draw(options.pieces, HEARD, torch.Generator(device).manual_seed(_SEED)).samples
    for file in options.codecs:
        codec = Codec(folder.codec_architecture(config.load()))
        codec.load_published(load_file(file))
        found = standing(codec.to(device).eval(), samples)
        print(f"{file}: mel {found.mel:.3f} rank {found.rank:.1f} codes used {found.used}", flush=True)


if __name__ == "__main__":
    main()
