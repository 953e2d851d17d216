"""Code2Wav on a GPU at the published sizes, against plain torch in float32 on the CPU."""

from functools import cache

import numpy as np
import pytest
import torch

from engine.checkpoint.architecture import CodecArchitecture
from engine.code2wav.gpu import GraphedDecoder
from engine.code2wav.loading import choose_backend, graphed_decoder
from engine.config import Code2WavConfig
from engine.device.first_frame import FirstFrame
from engine.kernels.codec_ops import Product, ResidualUnit
from engine.kernels.codec_products import ProductKernels
from engine.kernels.codec_tiles import Tile
from engine.kernels.codec_triton import TritonOps
from engine.kernels.codec_units import UnitKernels
from engine.models.code2wav_gpu import RowDecoder, RowWeights, StreamMemory, Workspace
from engine.protocol.request import CODEBOOKS
from engine.protocol.samples import to_float32, to_int16
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
SLEEP_CYCLES = 100_000_000
"""About 50 ms."""
FLOAT16_DB, FLOAT32_DB = 40, 90
"""Minimum distance of the error below the signal in decibels, for float16 and float32."""


@cache
def reference_output():
    """Codes of two streams, and their samples from the reference implementation."""
    codes = random_codes(PUBLISHED, 2, FRAMES)
    return codes, decode_streams(reference_decoder(PUBLISHED, 2), codes)


@cache
def graphed(dtype="float16", streams=STREAMS, chunk=12, batch=256) -> GraphedDecoder:
    config = Code2WavConfig(dtype=dtype, max_chunk_frames=chunk, max_batch_frames=batch)
    backend = choose_backend(config, streams, DEVICE, PUBLISHED)
    return graphed_decoder(CodecArchitecture(PUBLISHED, None), tensors_of(PUBLISHED), backend, DEVICE, streams)


def test_every_captured_batch_matches_the_reference():
    codes, samples = reference_output()
    decoder = graphed()
    for streams, frames in decoder._sizes:
        batch_codes = codes[np.arange(streams) % 2, :frames]
        samples_of_batch = decode_streams(decoder, batch_codes)
        for at in {0, streams // 2, streams - 1}:
            assert decibels(samples_of_batch[at], samples[at % 2, : frames * 1920]) > FLOAT16_DB, (streams, frames, at)
    assert decoder.free_rows == STREAMS


@pytest.mark.parametrize("cuts", [tuple(range(1, FRAMES)), (1, 2, 4, 8, 20), (12,)])
@pytest.mark.parametrize("streams", [2, 3, 21])
def test_streaming_matches_the_reference(streams, cuts):
    codes, samples = reference_output()
    decoded = decode_streams(graphed(), codes[np.arange(streams) % 2], cuts)
    assert decibels(decoded, samples[np.arange(streams) % 2]) > FLOAT16_DB


def test_a_first_frame_is_decoded_from_codes_that_another_cuda_stream_writes_later():
    codes, decoder = random_codes(PUBLISHED, 2, 1, seed=2)[:, 0], graphed()
    on_device, step = torch.zeros(2, CODEBOOKS, dtype=torch.int16, device=DEVICE), torch.cuda.Stream()
    truth = decode_streams(decoder, codes[1:, None])
    torch.cuda.synchronize()
    with torch.cuda.stream(step):
        torch.cuda._sleep(SLEEP_CYCLES)
        on_device.copy_(torch.from_numpy(codes.astype(np.int16)).pin_memory(), non_blocking=True)
        ready = torch.cuda.Event()
        ready.record()
    row = decoder.begin(None)
    batch = decoder.launch_first(row, FirstFrame(1, on_device, 1, ready))
    assert not ready.query()
    assert np.array_equal(to_float32(batch.collect()), truth)
    assert np.array_equal(batch.codes, codes[1])
    decoder.end(row)


def test_a_reference_context_is_cached():
    codes, samples = reference_output()
    decoder = graphed()
    first, cached = (decode_streams(decoder, codes[:1, 19:], context=codes[0, :19]) for _ in range(2))
    assert decibels(first, samples[:1, 19 * 1920 :]) > FLOAT16_DB
    assert np.array_equal(first, cached)
    assert decoder.prefix_cache.hits and decoder.prefix_cache.misses


def test_a_stream_is_independent_of_its_neighbors():
    """Bit-exact in batches of one size, at any position, and next to padding."""
    codes, decoder = random_codes(PUBLISHED, 8, 4, seed=1), graphed()
    together = decode_streams(decoder, codes)
    assert np.array_equal(decode_streams(decoder, codes[::-1]), together[::-1])
    assert np.array_equal(decode_streams(decoder, codes[2:7]), together[2:7])


def test_a_batch_has_the_same_samples_beside_other_work_on_the_gpu():
    """Other work changes the timing within a kernel, so a race shows as different samples."""
    codes, decoder, other = random_codes(PUBLISHED, 32, 6, seed=3), graphed(), torch.cuda.Stream()
    alone, matrix = decode_streams(decoder, codes), torch.randn(4096, 4096, device=DEVICE).bfloat16()
    for _ in range(200):
        with torch.cuda.stream(other):
            for _ in range(10):
                torch.mm(matrix[:256], matrix)
                torch.mm(matrix, matrix)
        assert np.array_equal(decode_streams(decoder, codes), alone)
    torch.cuda.synchronize()


def test_float32_samples_differ_by_at_most_one_step_of_16_bits():
    codes, samples = reference_output()
    decoder = graphed("float32", streams=4, chunk=4, batch=8)
    decoded = decode_streams(decoder, codes[:, :10], (1, 2, 4, 8))
    assert np.abs(np.rint(decoded * 32767) - to_int16(samples[:, : 10 * 1920])).max() <= 1


@torch.inference_mode()
def test_float32_matches_the_reference_before_rounding_to_16_bits():
    codes, samples = reference_output()
    weights = RowWeights(tensors_of(PUBLISHED), PUBLISHED, device=DEVICE, dtype=torch.float32)
    memory, decoder = StreamMemory(weights, 2), RowDecoder(weights, TritonOps())
    rows, pieces = torch.tensor([1, 0], device=DEVICE), []
    for piece in np.split(codes[:, :7], (1, 3), axis=1):
        frames = piece.shape[1]
        work = torch.full((Workspace.size(weights, 2, frames),), float("nan"), device=DEVICE)
        output = torch.empty(2, frames * 1920, device=DEVICE)
        chunk_codes = torch.from_numpy(piece.astype(np.int64)).to(DEVICE)
        decoder.decode(chunk_codes, rows, memory, Workspace(weights, 2, frames, work), output)
        pieces.append(output.cpu().numpy())
    assert decibels(np.concatenate(pieces, axis=1), samples[:, : 7 * 1920]) > FLOAT32_DB


def random_product(taps: int, inputs: int, columns: int, dilation: int = 1) -> Product:
    matrix = torch.randn(taps * inputs, columns, device=DEVICE) / (taps * inputs) ** 0.5
    bias, frequency, gain = torch.rand(3, columns, device=DEVICE)
    return Product(matrix.half(), bias, taps, dilation, activation="snake", frequency=frequency * 3, gain=gain)


def random_unit(channels: int, dilation: int) -> ResidualUnit:
    return ResidualUnit(random_product(7, channels, channels, dilation), random_product(1, channels, channels))


@pytest.mark.skipif(not UnitKernels.supported(DEVICE), reason="needs a GPU with compute capability 9.0")
@pytest.mark.parametrize("channels", [96, 192])
@pytest.mark.parametrize("dilation", [1, 3, 9])
@pytest.mark.parametrize(("streams", "length"), [(1, 5), (3, 200), (16, 1920)])
@torch.inference_mode()
def test_a_residual_unit_in_one_launch_equals_two(channels, dilation, streams, length):
    """Including values that saturate, and NaN, which stays in its stream."""
    torch.manual_seed(0)
    unit, kernels = random_unit(channels, dilation), UnitKernels(DEVICE)
    x = torch.randn(streams, length + 6 * dilation, channels, device=DEVICE).half()
    residual = torch.randn(streams, length, channels, device=DEVICE).half()
    residual[0, 0], residual[-1, -1] = 65504, -65504
    if streams > 1:
        x[-1, -1, 0] = torch.nan
    two, one, last = ([torch.full_like(residual, 7.0) for _ in range(2)] for _ in range(3))
    TritonOps().residual_unit(x, unit, residual=residual, raw=two[0], act=two[1])
    kernels(x, unit, residual, one[0], one[1])
    kernels(x, unit, residual, None, last[1])
    torch.testing.assert_close(one, two, rtol=2e-3, atol=8e-3, equal_nan=True)
    assert torch.equal(last[1].nan_to_num(), one[1].nan_to_num())
    assert one[0][:-1].isfinite().all()
    assert one[0][-1, -1].isnan().any() == (streams > 1)


@pytest.mark.skipif(not UnitKernels.supported(DEVICE), reason="needs a GPU with compute capability 9.0")
@pytest.mark.parametrize(
    ("taps", "inputs", "columns", "dilation"), [(7, 384, 384, 9), (2, 192, 288, 1), (1, 64, 96, 1)]
)
@pytest.mark.parametrize(("streams", "length"), [(1, 640), (3, 136), (37, 4), (6, 5)])
@torch.inference_mode()
def test_a_product_in_cuda_equals_triton(taps, inputs, columns, dilation, streams, length):
    """At any number of time steps, including values that saturate, and NaN, which stays in its stream."""
    torch.manual_seed(0)
    product, kernels = random_product(taps, inputs, columns, dilation), ProductKernels(DEVICE)
    x = torch.randn(streams, length + product.history, inputs, device=DEVICE).half()
    residual = torch.randn(streams, length, columns, device=DEVICE).half()
    residual[0, 0], residual[-1, -1] = 65504, -65504
    x[-1, -1, 0] = torch.nan
    triton, cuda = ([torch.full_like(residual, 7.0) for _ in range(4)] for _ in range(2))
    for launch, out in ((TritonOps().product, triton), (kernels, cuda)):
        launch(x, product, residual=residual, raw=out[0], act=out[1])
        launch(x, product, residual=None, raw=out[2], act=None)
        launch(x, product, residual=None, raw=None, act=out[3])
    torch.testing.assert_close(cuda, triton, rtol=2e-3, atol=8e-3, equal_nan=True)
    assert not any(each[:-1].isnan().any() for each in cuda)
    assert all(each[-1, -1].isnan().any() for each in cuda)


@pytest.mark.parametrize(("rows", "splits"), [(1, 8), (5, 4), (100, 8)])
@torch.inference_mode()
def test_a_split_product_equals_an_unsplit_one(rows, splits, monkeypatch):
    """In every launch: the counters return to zero."""
    torch.manual_seed(0)
    product, ops = random_product(7, 256, 192), TritonOps()
    x = torch.randn(1, rows + 6, 256, device=DEVICE).half()
    outputs = []
    for each in (1, splits, splits):
        tile = Tile(16, 64, 64, 4, 4, each)
        monkeypatch.setattr("engine.kernels.codec_triton.choose_tile", lambda *_, tile=tile, **__: tile)
        outputs.append(torch.empty(1, rows, 192, device=DEVICE).half())
        ops.product(x, product, act=outputs[-1])
    torch.testing.assert_close(outputs[1], outputs[0], rtol=2e-3, atol=2e-3)
    assert torch.equal(outputs[1], outputs[2])
