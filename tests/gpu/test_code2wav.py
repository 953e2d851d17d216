"""Code2Wav on a GPU, at the published sizes, against plain torch in float32 on the CPU."""

from functools import cache

import numpy as np
import pytest
import torch

from engine.checkpoint.architecture import CodecArchitecture
from engine.code2wav.gpu import GraphedDecoder
from engine.code2wav.loading import choose_backend, graphed_decoder
from engine.config import Code2WavConfig
from engine.kernels.codec_triton import TritonOps
from engine.models.code2wav_gpu import RowDecoder, RowWeights, StreamMemory, Workspace
from engine.protocol.samples import to_int16
from tests.support.code2wav_decoders import (
    PUBLISHED,
    decibels,
    decode_streams,
    random_codes,
    reference_decoder,
    tensors_of,
)
from tests.support.talkers import DEVICE

FRAMES = 24
STREAMS = 256
HALF, WHOLE = 40, 90
"""How far the error lies below the signal, in decibels: of float16 at least, and of float32."""


@cache
def truth():
    """Codes of two streams, and the definition's samples."""
    codes = random_codes(PUBLISHED, 2, FRAMES)
    return codes, decode_streams(reference_decoder(PUBLISHED, 2), codes)


@cache
def graphed(dtype="float16", streams=STREAMS, chunk=12, batch=256) -> GraphedDecoder:
    config = Code2WavConfig(dtype=dtype, max_chunk_frames=chunk, max_batch_frames=batch)
    form = choose_backend(config, streams, DEVICE, PUBLISHED)
    return graphed_decoder(CodecArchitecture(PUBLISHED, None), tensors_of(PUBLISHED), form, DEVICE, streams)


def test_every_captured_batch_makes_the_definitions_samples():
    codes, samples = truth()
    decoder = graphed()
    for streams, frames in decoder._sizes:
        given = codes[np.arange(streams) % 2, :frames]
        made = decode_streams(decoder, given)
        for at in {0, streams // 2, streams - 1}:
            assert decibels(made[at], samples[at % 2, : frames * 1920]) > HALF, (streams, frames, at)
    assert decoder.free_rows == STREAMS


@pytest.mark.parametrize("cuts", [tuple(range(1, FRAMES)), (1, 2, 4, 8, 20), (12,)])
@pytest.mark.parametrize("streams", [2, 3, 21])
def test_streamed_is_the_whole(streams, cuts):
    codes, samples = truth()
    made = decode_streams(graphed(), codes[np.arange(streams) % 2], cuts)
    assert decibels(made, samples[np.arange(streams) % 2]) > HALF


def test_a_reference_is_remembered():
    codes, samples = truth()
    decoder = graphed()
    first, again = (decode_streams(decoder, codes[:1, 19:], context=codes[0, :19]) for _ in range(2))
    assert decibels(first, samples[:1, 19 * 1920 :]) > HALF
    assert np.array_equal(first, again)
    assert decoder.hits and decoder.misses


def test_a_stream_does_not_depend_on_its_neighbours():
    """Bit for bit, in batches of one size, at any place of them, and beside what fills them up."""
    codes, decoder = random_codes(PUBLISHED, 8, 4, seed=1), graphed()
    together = decode_streams(decoder, codes)
    assert np.array_equal(decode_streams(decoder, codes[::-1]), together[::-1])
    assert np.array_equal(decode_streams(decoder, codes[2:7]), together[2:7])


def test_in_float32_samples_differ_by_one_step_of_16_bits():
    codes, samples = truth()
    decoder = graphed("float32", streams=4, chunk=4, batch=8)
    made = decode_streams(decoder, codes[:, :10], (1, 2, 4, 8))
    assert np.abs(np.rint(made * 32767) - to_int16(samples[:, : 10 * 1920])).max() <= 1


@torch.inference_mode()
def test_float32_before_rounding_to_16_bits():
    codes, samples = truth()
    weights = RowWeights(tensors_of(PUBLISHED), PUBLISHED, device=DEVICE, dtype=torch.float32)
    memory, decoder = StreamMemory(weights, 2), RowDecoder(weights, TritonOps())
    rows, pieces = torch.tensor([1, 0], device=DEVICE), []
    for piece in np.split(codes[:, :7], (1, 3), axis=1):
        frames = piece.shape[1]
        work = torch.full((Workspace.size(weights, 2, frames),), float("nan"), device=DEVICE)
        made = torch.empty(2, frames * 1920, device=DEVICE)
        given = torch.from_numpy(piece.astype(np.int64)).to(DEVICE)
        decoder.decode(given, rows, memory, Workspace(weights, 2, frames, work), made)
        pieces.append(made.cpu().numpy())
    assert decibels(np.concatenate(pieces, axis=1), samples[:, : 7 * 1920]) > WHOLE
