"""Code2Wav decoders with random weights, codes to decode, and the error between two decoded waveforms."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

from engine.checkpoint.architecture import CodecArchitecture, DecoderArchitecture, Transformer
from engine.checkpoint.layout import codec_shapes
from engine.code2wav.base import Decoder
from engine.code2wav.cpu import StreamDecoder
from engine.models.code2wav import Code2WavModel
from tests.support.random_checkpoint.weights import write_weights

Codes = NDArray[np.int16]
CPU = torch.device("cpu")
PUBLISHED = DecoderArchitecture(
    transformer=Transformer(
        hidden=512, intermediate=1024, layers=8, heads=16, kv_heads=16, head_dim=64, rope_theta=1e4, eps=1e-5
    ),
    latent=1024,
    codebook_dim=512,
    codebook_size=2048,
    quantizers=16,
    decoder_dim=1536,
    sliding_window=72,
    upsample_rates=(8, 5, 4, 3),
    upsampling_ratios=(2, 2),
)
SMALL = replace(
    PUBLISHED,
    transformer=Transformer(
        hidden=48, intermediate=80, layers=2, heads=2, kv_heads=2, head_dim=32, rope_theta=1e4, eps=1e-5
    ),
    latent=48,
    codebook_dim=32,
    codebook_size=64,
    decoder_dim=64,
    sliding_window=12,
)


@cache
def tensors_of(architecture: DecoderArchitecture) -> dict[str, torch.Tensor]:
    """Return random tensors, named as in speech_tokenizer/model.safetensors but without the prefix ``decoder.``."""
    last = len(architecture.upsample_rates) + 2
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.safetensors")
        shapes = codec_shapes(CodecArchitecture(architecture, None))
        write_weights(file, shapes, "codec", torch.float32, last_conv=f"decoder.decoder.{last}.conv.weight")
        return {name.removeprefix("decoder."): tensor for name, tensor in load_file(file).items()}


def reference_decoder(architecture: DecoderArchitecture, rows: int) -> StreamDecoder:
    """Return the reference implementation, in plain torch on the CPU."""
    with torch.inference_mode():
        return StreamDecoder(Code2WavModel(tensors_of(architecture), architecture, device=CPU), rows)


def random_codes(architecture: DecoderArchitecture, streams: int, frames: int, seed: int = 0) -> Codes:
    """Return codes int16 [streams, frames, 16]."""
    shape = (streams, frames, architecture.quantizers)
    return np.random.default_rng(seed).integers(architecture.codebook_size, size=shape, dtype=np.int16)


def decode_streams(
    decoder: Decoder, codes: Codes, cuts: tuple[int, ...] = (), context: Codes | None = None
) -> NDArray[np.int16]:
    """Return the samples of codes [streams, frames, 16], decoded in chunks.

    cuts: frames at which a chunk ends. context: reference frames that precede every stream.
    """
    rows = [decoder.begin(context) for _ in codes]
    pieces = [decoder.decode(rows, piece) for piece in np.split(codes, cuts, axis=1)]
    for row in rows:
        decoder.end(row)
    return np.concatenate(pieces, axis=1)


def decibels(samples: NDArray[Any], expected: NDArray[Any]) -> float:
    """Return the level of the error in dB below the signal."""
    return float(20 * np.log10(expected.std() / (samples - expected).std()))
