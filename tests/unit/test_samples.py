"""Samples: conversion between int16 and float32, and transport from Code2Wav."""

import numpy as np

from engine.protocol.request import AudioChunk
from engine.protocol.samples import NAN_SAMPLE, to_float32, to_int16


def test_full_scale_maps_to_the_largest_sample_and_louder_is_clipped():
    samples = np.array([0, 1, -1, 3, -3, 0.5 / 32767 + 1e-7], np.float32)
    assert to_int16(samples).tolist() == [0, 32767, -32767, 32767, -32767, 1]


def test_nan_is_distinguishable_from_every_sample():
    assert to_int16(np.array([np.nan, -np.inf, np.inf], np.float32)).tolist() == [NAN_SAMPLE, -32767, 32767]


def test_every_sample_survives_the_round_trip():
    every = np.arange(-32767, 32768, dtype=np.int16)
    assert np.array_equal(to_int16(to_float32(every)), every)
    assert np.abs(to_float32(every)).max() == 1


def test_chunks_decoded_together_are_sent_separately():
    rng = np.random.default_rng(1)
    samples = rng.integers(-32767, 32768, (3, 3 * 1920), np.int16)[:, : 2 * 1920]
    codes = rng.integers(0, 2048, (3, 2, 16), np.int16)
    payloads = AudioChunk.all_to_bytes(samples, codes)
    for payload, expected_samples, expected_codes in zip(payloads, samples, codes, strict=True):
        chunk = AudioChunk.from_bytes(payload, frames=2)
        assert np.array_equal(chunk.samples, expected_samples)
        assert np.array_equal(chunk.codes, expected_codes)
