"""A seam that could be heard shows in the figure, and one that could not does not."""

from __future__ import annotations

import numpy as np
import pytest

from scripts.judge.seams import seam_decibels

EDGES = tuple(range(3840, 24000 * 20, 3840))


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    """Noise whose loudness changes as speech's does, 20 s."""
    generator = np.random.default_rng(1)
    loudness = np.repeat(generator.uniform(0.001, 0.2, 400), 1200)
    return (generator.standard_normal(24000 * 20) * np.convolve(loudness, np.ones(600) / 600, "same")).astype(
        np.float32
    )


def test_chunks_that_join_smoothly_differ_from_nothing(speech):
    assert seam_decibels([(speech, EDGES)]) < 2


def test_a_click_where_chunks_meet_shows(speech):
    clicking = speech.copy()
    clicking[list(EDGES)] += 2
    assert seam_decibels([(clicking, EDGES)]) > 4


def test_a_gap_where_chunks_meet_shows(speech):
    gaping = speech.copy()
    for edge in EDGES:
        gaping[edge - 40 : edge + 40] = 0
    assert seam_decibels([(gaping, EDGES)]) > 4


def test_one_chunk_has_no_seam(speech):
    assert seam_decibels([(speech, ())]) is None
