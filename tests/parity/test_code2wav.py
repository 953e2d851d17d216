"""Code2Wav matches the reference implementation: complete or in chunks of any size, alone or in a batch."""

import random

import numpy as np
import pytest
import torch

from engine.checkpoint.folder import open_checkpoint
from engine.code2wav.cpu import StreamDecoder
from engine.kernels.conv import bfloat16_runs
from engine.models.code2wav import Code2WavModel
from engine.protocol.request import SAMPLES_PER_FRAME
from tests.parity import golden_cases
from tests.support.talkers import DEVICE, bit_for_bit


@pytest.fixture(scope="module")
def decoder(checkpoints):
    checkpoint = open_checkpoint(str(checkpoints["1b7-base"]))
    with torch.inference_mode():
        model = Code2WavModel(checkpoint.codec_tensors("decoder."), checkpoint.codec.decoder, device=DEVICE)
    return StreamDecoder(model, rows=8)


def decode(decoder, codes, cuts=(), context=None):
    """Samples of codes [frames, 16], decoded in chunks that end after the frames in ``cuts``."""
    row = decoder.begin(context)
    pieces = [decoder.decode([row], chunk[None])[0] for chunk in np.split(codes, cuts) if len(chunk)]
    decoder.end(row)
    return np.concatenate(pieces)


def chunkings(frames):
    generator = random.Random(frames)
    yield "one by one", list(range(1, frames))
    yield "fives", list(range(5, frames, 5))
    yield "growing chunks", [1, 2, 4, 8, 16, 32, 64, 128, 256]
    yield "random", sorted(generator.sample(range(1, frames), min(frames - 1, 12)))


@pytest.mark.parametrize("frames", [1, 2, 7, 40, 330])
def test_a_complete_utterance_matches_the_reference(frames, decoder):
    golden = golden_cases.load("decoder_only")
    samples = decode(decoder, golden[f"codes_{frames}"].astype(np.int16))
    assert len(samples) == frames * SAMPLES_PER_FRAME
    assert np.abs(samples - golden[f"full_{frames}"]).max() < 1e-4


@bit_for_bit
@pytest.mark.parametrize("frames", [7, 40, 330])
def test_chunks_equal_the_complete_utterance_bit_for_bit(frames, decoder):
    codes = golden_cases.load("decoder_only")[f"codes_{frames}"].astype(np.int16)
    whole = decode(decoder, codes)
    for name, cuts in chunkings(frames):
        assert np.array_equal(decode(decoder, codes, [cut for cut in cuts if cut < frames]), whole), name


without_bfloat16 = pytest.mark.skipif(not bfloat16_runs(), reason="oneDNN has no bfloat16 on this CPU")


def rounded_decoder(checkpoints, dtype, rows):
    checkpoint = open_checkpoint(str(checkpoints["1b7-base"]))
    tensors, architecture = checkpoint.codec_tensors("decoder."), checkpoint.codec.decoder
    with torch.inference_mode():
        return StreamDecoder(Code2WavModel(tensors, architecture, device=DEVICE, dtype=dtype), rows=rows)


@bit_for_bit
@pytest.mark.parametrize(
    ("dtype", "error"), [pytest.param(torch.bfloat16, 0.05, marks=without_bfloat16), (torch.int16, 0.005)]
)
def test_rounded_chunks_equal_the_complete_utterance_too(dtype, error, checkpoints, decoder):
    rounded = rounded_decoder(checkpoints, dtype, rows=1)
    codes = golden_cases.load("decoder_only")["codes_40"].astype(np.int16)
    whole = decode(rounded, codes)
    for name, cuts in chunkings(40):
        assert np.array_equal(decode(rounded, codes, [cut for cut in cuts if cut < 40]), whole), name
    exact = decode(decoder, codes)
    assert 0 < (whole - exact).std() < error * exact.std()


def test_rounded_streams_decode_in_a_batch_as_alone(checkpoints):
    rounded = rounded_decoder(checkpoints, torch.int16, rows=4)
    codes = golden_cases.load("decoder_only")["codes_330"].astype(np.int16)
    utterances = [codes[start : start + 24] for start in (0, 70, 140)]
    alone = [decode(rounded, each) for each in utterances]
    rows = [rounded.begin(None) for _ in utterances]
    pieces = [rounded.decode(rows, batch) for batch in np.split(np.stack(utterances), 4, axis=1)]
    assert np.array_equal(np.concatenate(pieces, axis=1), np.stack(alone))


@bit_for_bit
def test_streams_at_different_positions_decode_in_a_batch_as_alone(decoder):
    golden = golden_cases.load("decoder_only")
    utterances = [golden["codes_330"][start : start + 60].astype(np.int16) for start in (0, 70, 140, 210)]
    alone = [decode(decoder, codes) for codes in utterances]
    ages = [0, 3, 17, 40]
    rows = [decoder.begin(None) for _ in utterances]
    pieces_by_stream = [[] for _ in utterances]
    for age, row, codes, pieces in zip(ages, rows, utterances, pieces_by_stream, strict=True):
        if age:
            pieces.append(decoder.decode([row], codes[None, :age])[0])
    for step in range(0, 20, 4):
        batch = np.stack([codes[age + step : age + step + 4] for age, codes in zip(ages, utterances, strict=True)])
        for pieces, samples in zip(pieces_by_stream, decoder.decode(rows, batch), strict=True):
            pieces.append(samples)
    for row in rows:
        decoder.end(row)
    for age, pieces, whole in zip(ages, pieces_by_stream, alone, strict=True):
        assert np.array_equal(np.concatenate(pieces), whole[: (age + 20) * SAMPLES_PER_FRAME])


@bit_for_bit
@pytest.mark.parametrize("reference_frames", [1, 9, 10, 11, 90])
def test_a_reference_context_equals_decoding_the_reference(reference_frames, decoder):
    codes = golden_cases.load("decoder_only")["codes_330"][:120].astype(np.int16)
    context, rest = codes[:reference_frames], codes[reference_frames:]
    whole = decode(decoder, codes)[reference_frames * SAMPLES_PER_FRAME :]
    for attempt in ("uncached", "cached"):
        assert np.array_equal(decode(decoder, rest, [3], context), whole), attempt


@pytest.mark.parametrize("name", golden_cases.TALKER_CASES)
def test_waveforms_match_the_reference_within_1e_4(name, decoder):
    golden = golden_cases.load(name)
    reference = golden.get("ref_codes")
    context = None if reference is None else reference.astype(np.int16)
    samples = decode(decoder, golden["codes"].astype(np.int16), [2, 7], context)
    assert np.abs(samples - golden["wav"]).max() < 1e-4
