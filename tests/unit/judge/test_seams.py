"""Audible seams between chunks increase the figure, inaudible ones do not."""

from __future__ import annotations

import numpy as np
import pytest

from scripts.judge.seams import seam_decibels

EDGES = tuple(range(3840, 24000 * 20, 3840))


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    """20 s of noise with the loudness changes of speech."""
    generator = np.random.default_rng(1)
    loudness = np.repeat(generator.uniform(0.001, 0.2, 400), 1200)
    return (generator.standard_normal(24000 * 20) * np.convolve(loudness, np.ones(600) / 600, "same")).astype(
        np.float32
    )


def test_smooth_joins_are_not_detected(speech):
    assert seam_decibels([(speech, EDGES)]) < 2


def test_a_click_between_chunks_is_detected(speech):
    clicking = speech.copy()
    clicking[list(EDGES)] += 2
    assert seam_decibels([(clicking, EDGES)]) > 4


def test_a_gap_between_chunks_is_detected(speech):
    with_gaps = speech.copy()
    for edge in EDGES:
        with_gaps[edge - 40 : edge + 40] = 0
    assert seam_decibels([(with_gaps, EDGES)]) > 4


def test_one_chunk_has_no_seam(speech):
    assert seam_decibels([(speech, ())]) is None
