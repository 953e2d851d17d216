"""Voices encoded in a batch equal voices encoded alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.checkpoint.folder import open_checkpoint
from engine.cloning.encoder import ReferenceEncoder, cache_key
from engine.cloning.networks import MIN_SAMPLES, BatchSizes, ReferenceNetworks, captured_sizes
from engine.device.streams import HostStream
from engine.errors import EngineFailed, RequestError
from engine.models.speaker_encoder import LogMel, dft_matrix, matrix_stft
from engine.protocol.messages import EncodeRequest
from engine.protocol.request import SAMPLE_RATE
from tests.support.reference_voices import (
    assert_same_codes,
    assert_same_vector,
    assert_same_voice,
    margins,
    padded,
    recording,
)

CPU = torch.device("cpu")
FRAME = 1920
LENGTHS = [MIN_SAMPLES, MIN_SAMPLES + 1, 7777, 5 * FRAME, 5 * FRAME - 1, 5 * FRAME + 1, 31_234, 20 * FRAME]
SIZES = BatchSizes([(1, 24_000), (2, 24_000), (4, 12_000)])


@pytest.fixture(scope="module")
def checkpoint(checkpoints):
    return open_checkpoint(str(checkpoints["1b7-base"]))


@pytest.fixture(scope="module")
def networks(checkpoint):
    return ReferenceNetworks(checkpoint, CPU)


def requests_of(*lengths: int, codes: bool = True) -> list[EncodeRequest]:
    return [EncodeRequest(recording(length), codes) for length in lengths]


def assert_equal_alone(voices, requests, encoder: ReferenceEncoder) -> None:
    for voice, request in zip(voices, requests, strict=True):
        safe = margins(encoder._networks._speech, request.samples) if request.codes else None
        assert_same_voice(voice, encoder.encode(request), safe)


@pytest.mark.parametrize("columns", [20 * FRAME, 20 * FRAME + 1, 21 * FRAME - 7])
@torch.inference_mode()
def test_a_row_of_a_batch_equals_the_recording_alone(networks, columns):
    recordings = [recording(length) for length in LENGTHS]
    rows, lengths = padded(recordings, columns), torch.tensor(LENGTHS)
    vectors, codes = networks._speaker.batch(rows, lengths), networks._speech.batch(rows, lengths)
    for row, samples in enumerate(recordings):
        alone = torch.from_numpy(samples)
        expected = networks._speech(alone).numpy()
        assert_same_vector(vectors[row].numpy(), networks._speaker(alone).numpy())
        assert_same_codes(codes[row, : len(expected)].numpy(), expected, margins(networks._speech, samples))


@torch.inference_mode()
def test_samples_beyond_the_end_of_a_recording_are_ignored(networks):
    recordings = [recording(length) for length in LENGTHS]
    lengths = torch.tensor(LENGTHS)
    silent, loud = (padded(recordings, 20 * FRAME, beyond) for beyond in (0, 10))
    assert torch.equal(networks._speaker.batch(silent, lengths), networks._speaker.batch(loud, lengths))
    quiet_codes, loud_codes = (networks._speech.batch(rows, lengths) for rows in (silent, loud))
    for row, length in enumerate(LENGTHS):
        frames = -(-length // FRAME)
        assert torch.equal(quiet_codes[row, :frames], loud_codes[row, :frames])


def test_the_spectrum_by_product_equals_the_fft():
    samples = torch.from_numpy(np.stack([recording(20_000), recording(20_000, seed=1)]))
    window = torch.hann_window(1024)
    expected = torch.view_as_real(torch.stft(samples, 1024, 256, window=window, center=False, return_complex=True))
    result = matrix_stft(samples, dft_matrix())
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-5 * float(expected.abs().max()))


def test_a_gpu_holds_only_the_tensors_of_its_own_spectrum():
    tensors = {name: each for name, each in vars(LogMel(24_000, 128, torch.device("meta"))).items() if each is not None}
    assert [name for name, each in tensors.items() if each.device.type == "meta"] == ["_filters", "_dft_matrix"]


@pytest.mark.parametrize("lengths", [(24_000,), (1, 24_000), (12_000, 5, 7), (12_000,) * 4])
def test_smaller_batches_are_padded_to_captured_sizes(checkpoint, lengths):
    """Also after a batch of NaN, which must leave nothing behind."""
    requests = requests_of(*(max(MIN_SAMPLES + 1, length) for length in lengths))
    alone, together = ReferenceEncoder(checkpoint, CPU), ReferenceEncoder(checkpoint, CPU)
    together._networks.capture(SIZES)
    together.encode_all([EncodeRequest(np.full(12_000, np.nan, np.float32), codes=True)] * 4)
    assert together.batch_size(requests) == len(requests)
    assert_equal_alone(together.encode_all(requests), requests, alone)


def test_codes_are_encoded_only_if_requested(checkpoint):
    requests = [EncodeRequest(recording(8_000 + number), codes=number % 2 == 1) for number in range(4)]
    alone, together = ReferenceEncoder(checkpoint, CPU), ReferenceEncoder(checkpoint, CPU)
    together._networks.capture(SIZES)
    assert_equal_alone(together.encode_all(requests), requests, alone)
    assert_equal_alone(together.encode_all(requests[::2]), requests[::2], alone)


def test_a_recording_beyond_the_captured_sizes_is_encoded_alone(checkpoint):
    [request] = requests_of(24_001)
    alone, together = ReferenceEncoder(checkpoint, CPU), ReferenceEncoder(checkpoint, CPU)
    together._networks.capture(SIZES)
    assert together.batch_size([request, request]) == 1
    assert np.array_equal(together.encode(request).codes, alone.encode(request).codes)


def test_a_voice_stays_valid_after_the_next_batch(checkpoint):
    encoder = ReferenceEncoder(checkpoint, CPU)
    encoder._networks.capture(SIZES)
    first, other = requests_of(9_000, 10_000)
    voice = encoder.encode(first)
    embedding, codes = voice.embedding.copy(), voice.codes.copy()
    encoder.encode(other)
    assert np.array_equal(voice.embedding, embedding)
    assert np.array_equal(voice.codes, codes)


def test_a_recording_requested_twice_is_encoded_once(checkpoint, monkeypatch):
    encoder = ReferenceEncoder(checkpoint, CPU)
    encoder.capture()
    batch_sizes = []
    encode = encoder._networks.encode
    monkeypatch.setattr(encoder._networks, "encode", lambda *given: batch_sizes.append(len(given[0])) or encode(*given))
    first, other = requests_of(9_000, 10_000)
    encoder.encode(other)
    voices = encoder.encode_all([first, other, first])
    assert voices[0] is voices[2]
    assert batch_sizes == [1, 1]
    assert (encoder.hits, encoder.misses) == (2, 2)


def test_a_refused_recording_is_never_cached(checkpoint):
    encoder = ReferenceEncoder(checkpoint, CPU)
    [short] = requests_of(MIN_SAMPLES - 1)
    assert all(isinstance(each, RequestError) for each in encoder.encode_all([short, short]))
    assert encoder.cached(cache_key(short)) is None
    assert (encoder.hits, encoder.misses) == (0, 2)


def test_an_encoded_voice_is_cached(checkpoint):
    encoder = ReferenceEncoder(checkpoint, CPU)
    [request] = requests_of(9_000)
    assert encoder.cached(cache_key(request)) is None
    voice = encoder.encode(request)
    assert encoder.cached(cache_key(EncodeRequest(request.samples.copy(), codes=True))) is voice
    assert encoder.cached(cache_key(EncodeRequest(request.samples, codes=False))) is None
    assert (encoder.hits, encoder.misses) == (1, 1)


@pytest.mark.parametrize("fault", [RuntimeError, torch.OutOfMemoryError])
def test_a_recording_that_fails_its_batch_fails_alone(checkpoint, monkeypatch, caplog, fault):
    encoder, batches = ReferenceEncoder(checkpoint, CPU), []
    encode = encoder._networks.encode

    def failing(recordings, codes):
        batches.append([len(each) for each in recordings])
        if 9_001 in batches[-1]:
            raise fault("the GPU is on fire")
        return encode(recordings, codes)

    monkeypatch.setattr(encoder._networks, "encode", failing)
    first, broken, last = requests_of(9_000, 9_001, 9_002)
    voices = encoder.encode_all([first, broken, last, broken])
    assert batches == [[9_000, 9_001, 9_002], [9_000], [9_001], [9_002]]
    assert_equal_alone([voices[0], voices[2]], [first, last], ReferenceEncoder(checkpoint, CPU))
    for failure in (voices[1], voices[3]):
        assert isinstance(failure, EngineFailed)
        assert failure.message == "encoding the reference failed: the GPU is on fire"
    assert "reference recordings failed" in caplog.text
    assert (encoder.hits, encoder.misses) == (0, 4)
    assert isinstance(encoder.encode_all([broken])[0], EngineFailed)


class GpuStream(HostStream):
    """Reports a GPU as its device."""

    device = torch.device("cuda")


@pytest.mark.parametrize(("stream", "freed"), [(GpuStream(), 1), (HostStream(), 0)])
def test_gpu_memory_is_released_after_a_recording_beyond_the_captured_sizes(checkpoint, monkeypatch, stream, freed):
    networks, order = ReferenceNetworks(checkpoint, CPU), []
    networks.capture(SIZES)
    networks._stream = stream
    encode_one = networks._encode_one
    monkeypatch.setattr(networks, "_encode_one", lambda *given: order.append("encoded") or encode_one(*given))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: order.append("freed"))
    networks.encode([recording(24_000)], [True])
    assert order == []
    networks.encode([recording(24_001)], [True])
    assert order == ["encoded", *["freed"] * freed]


def test_the_memory_of_a_failed_batch_is_released_before_the_retry(checkpoint, monkeypatch):
    encoder, order = ReferenceEncoder(checkpoint, CPU), []
    encoder._networks._stream = GpuStream()

    def failing(recordings, codes):
        order.append(len(recordings))
        raise torch.OutOfMemoryError

    monkeypatch.setattr(encoder._networks, "encode", failing)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: order.append("freed"))
    encoder.encode_all(requests_of(9_000, 9_001))
    assert order == [2, "freed", 1, "freed", 1, "freed"]


def test_a_recording_that_is_too_short_is_refused_alone(checkpoint):
    encoder = ReferenceEncoder(checkpoint, CPU)
    encoder.capture()
    good, short, other = requests_of(9_000, MIN_SAMPLES - 1, 10_000)
    voices = encoder.encode_all([good, short, other])
    assert isinstance(voices[1], RequestError)
    assert voices[1].code == "reference_too_short"
    assert_equal_alone([voices[0], voices[2]], [good, other], ReferenceEncoder(checkpoint, CPU))


def test_without_encoders_there_is_nothing_to_capture(checkpoints):
    encoder = ReferenceEncoder(open_checkpoint(str(checkpoints["1b7-custom_voice"])), CPU)
    encoder.capture()
    with pytest.raises(RequestError, match="cannot clone a voice"):
        encoder.encode(*requests_of(24_000))


@pytest.mark.parametrize(
    ("seconds", "count"),
    [
        ([3], 1),
        ([30], 1),
        ([30.1], 0),
        ([3] * 20, 8),
        ([7] * 20, 4),
        ([15] * 20, 2),
        ([20] * 20, 1),
        ([3, 30, 3], 1),
        ([3, 7], 2),
        ([3, 15], 1),
        ([3, 3, 3], 3),
        ([3, 3, 31], 2),
    ],
)
def test_recordings_are_batched_without_much_padding(seconds, count):
    assert captured_sizes().batch_size(int(each * SAMPLE_RATE) for each in seconds) == count


def test_the_smallest_sufficient_batch_is_used():
    sizes = captured_sizes()
    second = SAMPLE_RATE
    assert sizes.smallest_fitting(1, 4 * second) == (1, 4 * second)
    assert sizes.smallest_fitting(1, 4 * second + 1) == (1, 8 * second)
    assert sizes.smallest_fitting(3, 5 * second) == (4, 8 * second)
    assert sizes.smallest_fitting(8, 5 * second) is None
    assert max(count * samples for count, samples in sizes.all) <= 32 * second


def test_an_x_vector_is_scaled_to_the_smallest_norm_of_the_checkpoint(checkpoint):
    [request] = requests_of(20 * FRAME, codes=False)
    embedding = ReferenceEncoder(checkpoint, CPU).encode(request).embedding
    norm = np.linalg.norm(embedding)
    for smallest, scale in ((norm / 2, 1), (2 * norm, 2)):
        profile = replace(checkpoint.profile, embedding_norm=float(smallest))
        scaled = ReferenceEncoder(replace(checkpoint, profile=profile), CPU).encode(request).embedding
        np.testing.assert_allclose(scaled, scale * embedding, rtol=1e-6)
        assert scaled.dtype == np.float32
