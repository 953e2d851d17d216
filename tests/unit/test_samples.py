"""Samples in 16 bits, as parts of 1, and on their way from Code2Wav."""

import numpy as np

from engine.protocol.request import AudioChunk
from engine.protocol.samples import NAN_SAMPLE, to_float32, to_int16


def test_full_scale_is_the_largest_sample_and_what_is_louder_is_clipped():
    given = np.array([0, 1, -1, 3, -3, 0.5 / 32767 + 1e-7], np.float32)
    assert to_int16(given).tolist() == [0, 32767, -32767, 32767, -32767, 1]


def test_what_is_no_number_is_told_from_every_sample():
    assert to_int16(np.array([np.nan, -np.inf, np.inf], np.float32)).tolist() == [NAN_SAMPLE, -32767, 32767]


def test_every_sample_survives_the_way_there_and_back():
    every = np.arange(-32767, 32768, dtype=np.int16)
    assert np.array_equal(to_int16(to_float32(every)), every)
    assert np.abs(to_float32(every)).max() == 1


def test_chunks_that_were_decoded_together_travel_apart():
    dice = np.random.default_rng(1)
    samples = dice.integers(-32767, 32768, (3, 3 * 1920), np.int16)[:, : 2 * 1920]
    codes = dice.integers(0, 2048, (3, 2, 16), np.int16)
    payloads = AudioChunk.all_to_bytes(samples, codes)
    for payload, heard, drawn in zip(payloads, samples, codes, strict=True):
        chunk = AudioChunk.from_bytes(payload, frames=2)
        assert np.array_equal(chunk.samples, heard)
        assert np.array_equal(chunk.codes, drawn)
