"""Code2Wav on a GPU produces the samples of the reference implementation: in rows, in batches and in the stage."""

import threading

import numpy as np
import pytest
import torch

from engine.code2wav.gpu import GraphedDecoder, captured_sizes
from engine.code2wav.stage import Code2WavStage
from engine.config import Code2WavConfig
from engine.device.streams import HostStream
from engine.kernels import codec_products
from engine.kernels.codec_ops import Product, ResidualUnit
from engine.kernels.codec_tiles import choose_tile
from engine.kernels.codec_units import pack
from engine.models.code2wav_gpu import RowDecoder, RowWeights, StreamMemory, Workspace
from engine.protocol.messages import StreamHeader
from engine.protocol.request import AudioChunk, Completion, FinishReason
from engine.protocol.samples import NAN_SAMPLE, to_float32, to_int16
from engine.transfer import Kind, Wakeup, pair
from tests.support.code2wav_decoders import (
    CPU,
    SMALL,
    decibels,
    decode_streams,
    random_codes,
    reference_decoder,
    tensors_of,
)
from tests.support.torch_codec_ops import TorchOps

TIMEOUT = 20
FRAMES = 40
ROWS = 5
SIZES = captured_sizes(ROWS, max_chunk_frames=6, max_batch_frames=24)
STEP = 1 / 32767
EXACT = STEP / 2
"""Tolerance for another order of float32 sums: half a step of 16-bit samples."""


def row_weights(dtype=torch.float32, changed=()):
    with torch.inference_mode():
        return RowWeights(tensors_of(SMALL) | dict(changed), SMALL, device=CPU, dtype=dtype)


def graphed(dtype=torch.float32, changed=()):
    return GraphedDecoder(row_weights(dtype, changed), TorchOps(), HostStream(), rows=ROWS, sizes=SIZES)


@pytest.fixture(scope="module")
def reference_output():
    """Codes of three streams, and their samples from the reference implementation, decoded at once."""
    codes = random_codes(SMALL, 3, FRAMES)
    return codes, decode_streams(reference_decoder(SMALL, 3), codes)


@pytest.mark.parametrize("cuts", [(), (1, 2, 4, 8, 16, 32), (24, 25), tuple(range(1, FRAMES))])
def test_rows_match_the_reference_in_any_chunks(reference_output, cuts):
    codes, truth = reference_output
    weights = row_weights()
    memory, decoder = StreamMemory(weights, 4), RowDecoder(weights, TorchOps())
    rows = torch.tensor([2, memory.spare, 0, 3])
    cuts = cuts or (20,)  # a chunk has at most 24 frames
    pieces = []
    for piece in np.split(codes, cuts, axis=1):
        frames = piece.shape[1]
        codes_with_spare_row = torch.from_numpy(np.insert(piece, 1, 0, axis=0).astype(np.int64))
        work = torch.full((Workspace.size(weights, 4, frames),), float("nan"))
        samples = torch.empty(4, frames * 1920)
        with torch.inference_mode():
            decoder.decode(codes_with_spare_row, rows, memory, Workspace(weights, 4, frames, work), samples)
        pieces.append(samples[[0, 2, 3]].numpy())
    assert np.abs(np.concatenate(pieces, axis=1) - truth).max() < EXACT


def test_half_precision_error_is_below_40_decibels(reference_output):
    codes, truth = reference_output
    assert decibels(decode_streams(graphed(torch.float16), codes, (1, 3, 9)), truth) > 40


def test_activations_beyond_half_precision_saturate(reference_output):
    """The output is valid audio, and the stream's state stays finite."""
    codes, _ = reference_output
    names = ["decoder.0.conv.weight", "pre_transformer.layers.0.mlp.up_proj.weight", "upsample.1.0.conv.weight"]
    loud = graphed(torch.float16, {name: tensors_of(SMALL)[name] * 1e6 for name in names})
    assert np.abs(decode_streams(loud, codes, (1, 3, 9))).max() <= 1
    row = loud.begin(None)
    loud.decode([row], codes[:1])
    assert max(tensor.abs().max() for tensor in loud._memory.of(row)[:3]) == torch.finfo(torch.float16).max


def test_nan_weights_produce_marked_samples(reference_output):
    codes, _ = reference_output
    with_nan = graphed(torch.float16, {"decoder.0.conv.bias": torch.full((64,), torch.nan)})
    assert (with_nan.launch([with_nan.begin(None)], codes[:1, :2]).collect() == NAN_SAMPLE).all()


def test_two_batches_in_flight_have_samples_of_their_own(reference_output):
    codes, truth = reference_output
    decoder = graphed()
    rows = [decoder.begin(None) for _ in range(3)]
    batches = [decoder.launch([row], codes[number : number + 1, :2]) for number, row in enumerate(rows[:2])]
    first = batches[0].collect().copy()
    batches.append(decoder.launch([rows[2]], codes[2:, :2]))
    samples = np.concatenate([first, batches[1].collect(), batches[2].collect()])
    assert np.abs(to_float32(samples) - truth[:, : 2 * 1920]).max() < STEP


@pytest.mark.parametrize("cuts", [(1, 2, 4, 8), (6, 12, 18), ()])
def test_padded_batches_match_the_reference(reference_output, cuts):
    codes, truth = reference_output
    assert np.abs(decode_streams(graphed(), codes, cuts) - truth).max() < STEP


def test_a_row_is_cleared_for_the_next_stream(reference_output):
    codes, truth = reference_output
    decoder = graphed()
    for _ in range(3):
        assert np.abs(decode_streams(decoder, codes[:, :9]) - truth[:, : 9 * 1920]).max() < STEP
    assert decoder.free_rows == ROWS


@pytest.mark.parametrize("reference", [1, 7, 31])
def test_a_reference_is_cached_as_if_it_had_been_decoded(reference_output, reference):
    codes, truth = reference_output
    decoder = graphed()
    for attempt in range(2):
        rest = decode_streams(decoder, codes[:1, reference:], context=codes[0, :reference])
        assert np.abs(rest - truth[:1, reference * 1920 :]).max() < STEP
        assert (decoder.prefix_cache.hits, decoder.prefix_cache.misses) == (attempt, 1)


def test_streams_that_start_and_end_concurrently_are_independent(reference_output):
    codes, truth = reference_output
    decoder = graphed()
    first = decoder.begin(None)
    pieces = [decoder.decode([first], codes[:1, :4])]
    other = decoder.begin(codes[1, :5])
    both = decoder.decode([other, first], np.stack((codes[1, 5:7], codes[0, 4:6])))
    decoder.end(other)
    late = decoder.begin(None)
    again = decoder.decode([late, first], np.stack((codes[2, :2], codes[0, 6:8])))
    heard_first = np.concatenate([pieces[0][0], both[1], again[1]])
    assert np.abs(heard_first - truth[0, : 8 * 1920]).max() < STEP
    assert np.abs(both[0] - truth[1, 5 * 1920 : 7 * 1920]).max() < STEP
    assert np.abs(again[0] - truth[2, : 2 * 1920]).max() < STEP


def test_refuses_a_batch_that_was_not_captured():
    decoder = graphed()
    with pytest.raises(ValueError, match="fits 2 streams with 5 frames"):
        decoder.launch([0, 1], random_codes(SMALL, 2, 5))
    with pytest.raises(ValueError, match="fits 30 streams with up to 2 frames"):
        decoder.decode(range(30), random_codes(SMALL, 30, 2))


def test_a_stream_that_fails_to_start_leaves_a_clear_row(reference_output, monkeypatch):
    codes, truth = reference_output
    decoder = graphed()
    recall = decoder._restore

    def broken(row, context):
        recall(row, context)
        raise RuntimeError("no memory")

    monkeypatch.setattr(decoder, "_restore", broken)
    with pytest.raises(RuntimeError, match="no memory"):
        decoder.begin(codes[1, :5])
    assert decoder.free_rows == ROWS
    assert np.abs(decoder.decode([decoder.begin(None)], codes[:1])[0] - truth[0]).max() < STEP


def test_every_batch_of_the_schedule_is_captured():
    for streams, chunk, batch in ((1, 1, 1), (5, 6, 24), (16, 12, 24), (64, 24, 256), (512, 12, 512)):
        sizes = set(captured_sizes(streams, chunk, batch))
        assert {frames for count, frames in sizes if count == 1} >= {1, 2, 24}
        assert all(count * frames <= max(batch, 24) for count, frames in sizes)
        assert max(count for count, frames in sizes if frames == 1) >= min(streams, batch, 256) // 2


class SlowBatch:
    """A batch that is not complete when launched, as on a GPU."""

    done = False

    def __init__(self, pending):
        self.collect = pending.collect


class SlowDecoder(GraphedDecoder):
    def launch(self, rows, codes):
        return SlowBatch(super().launch(rows, codes))


@pytest.mark.parametrize("kind", [GraphedDecoder, SlowDecoder])
def test_the_stage_sends_the_samples_of_the_reference(reference_output, kind):
    codes, truth = reference_output
    decoder = kind(row_weights(), TorchOps(), HostStream(), rows=ROWS, sizes=SIZES)
    talker, own_frames = pair(window=64)
    own_audio, client = pair(window=64)
    wakeup, client_wakeup = Wakeup(), Wakeup()
    frames, audio = own_frames.attach(wakeup), own_audio.attach(wakeup)
    config = Code2WavConfig(streams=ROWS, max_chunk_frames=6, max_batch_frames=24)
    stage = threading.Thread(target=Code2WavStage(decoder, config, frames=frames, audio=audio, wakeup=wakeup).run)
    stage.start()
    contexts = {1: None, 2: codes[1, :9], 3: None}
    chunks = {stream: [] for stream in contexts}
    ended = set()
    with talker.attach(Wakeup()) as frame_sender, client.attach(client_wakeup) as audio_receiver:

        def all_ended():
            for record in audio_receiver.receive():
                if record.kind is Kind.DATA:
                    chunks[record.stream].append(AudioChunk.from_bytes(record.payload, record.units))
                    audio_receiver.release(record.stream, record.units)
                elif record.kind is Kind.END:
                    ended.add(record.stream)
            return len(ended) == len(contexts)

        for stream, context in contexts.items():
            frame_sender.open(stream, StreamHeader(True, context).to_bytes())
        for at in range(FRAMES):
            for stream, context in contexts.items():
                if at >= (0 if context is None else len(context)):
                    frame_sender.send_rows([stream], codes[stream - 1, at].tobytes())
        for stream in contexts:
            frame_sender.end(stream, Completion(FinishReason.STOP, 1, 1).to_bytes())
        assert client_wakeup.wait_for(all_ended, TIMEOUT)
    stage.join(TIMEOUT)
    frames.close()
    audio.close()
    for stream, context in contexts.items():
        start = 0 if context is None else len(context)
        samples = np.concatenate([chunk.samples for chunk in chunks[stream]])
        expected = to_int16(truth[stream - 1, start * 1920 :]).astype(int)
        assert np.abs(samples - expected).max() <= 1
        assert np.array_equal(np.concatenate([chunk.codes for chunk in chunks[stream]]), codes[stream - 1, start:])
    assert decoder.free_rows == ROWS


@pytest.mark.parametrize("itemsize", [2, 4])
def test_tiles_fit_their_products(itemsize):
    for rows in (1, 16, 100, 4096, 10**6):
        for columns in (96, 192, 288, 1024, 6144):
            for depth in (96, 672, 4096):
                tile = choose_tile(rows, columns, depth, itemsize)
                assert tile.rows <= max(16, rows)
                assert tile.programs(rows, columns) * tile.rows * tile.columns >= rows * columns
    assert choose_tile(1, 1024, 1024, itemsize).rows == 16
    assert choose_tile(10**6, 1024, 4096, 2).rows == 256


def test_a_product_with_a_norm_has_a_tile_that_triton_compiles_without_a_race():
    """Tiles of 64 rows and more run as wgmma."""
    for rows in (1, 16, 33, 64, 72, 192, 256, 10**4):
        for columns in (192, 2048, 3072):
            for depth in (512, 4096):
                tile = choose_tile(rows, columns, depth, 2, normed=True)
                assert tile.rows < 64
                assert tile.splits == 1


@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("shared", [64, 99, 163, 227])
def test_tiles_fit_the_shared_memory_of_a_block(shared, normed):
    for rows in (1, 16, 100, 4096, 10**6):
        for columns in (96, 192, 1024, 6144):
            for depth in (96, 672, 4096):
                for itemsize in (2, 4):
                    tile = choose_tile(rows, columns, depth, itemsize, shared * 1024, normed=normed)
                    assert tile.shared(itemsize) <= shared * 1024


def test_packed_units_have_the_order_in_which_the_kernel_reads_them():
    channels = 96
    unit = ResidualUnit(
        Product(torch.randn(7 * channels, channels), torch.zeros(channels), taps=7),
        Product(torch.randn(channels, channels), torch.zeros(channels)),
    )
    packed = pack(unit)
    for column in range(channels):
        thread, tile = column % 8 // 2, column % 32 // 8
        channel = column // 32 * 32 + thread * 8 + tile * 2 + column % 2
        read = packed[:, column].flatten()
        assert torch.equal(read[: 7 * channels], unit.wide.matrix[:, channel])
        for k in range(channels):  # the first product's columns are the second one's k
            inner = k // 32 * 32 + k % 8 // 2 * 8 + k % 32 // 8 * 2 + k % 2
            assert read[7 * channels + k] == unit.narrow.matrix[inner, channel]


def test_packed_products_have_the_order_in_which_the_kernel_reads_them():
    matrix, width = torch.randn(192, 192), 96
    packed = codec_products.pack(matrix, width)
    assert packed.shape == (2, 3, width, 8, 8)
    order = codec_products.permutation(192)
    for row, k in ((0, 0), (1, 9), (95, 130), (42, 191)):
        for block in range(2):
            chunk = k % 64 // 8 ^ row % 8
            assert packed[block, k // 64, row, chunk, k % 8] == matrix[k, order[block * width + row]]
