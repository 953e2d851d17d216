"""Blending interpolates between voices on a sphere, independent of their order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from server.voices.embeddings import BlendError, blend

WIDTH = 320
EPSILON = 1e-5


def voice(seed: int, length: float = 1.0) -> NDArray[np.float32]:
    direction = np.random.default_rng(seed).normal(size=WIDTH)
    return (length * direction / np.linalg.norm(direction)).astype(np.float32)


def direction(embedding: NDArray[np.float32]) -> NDArray[np.float64]:
    embedding64 = embedding.astype(np.float64)
    return embedding64 / np.linalg.norm(embedding64)


def slerp(one: NDArray[np.float32], other: NDArray[np.float32], t: float) -> NDArray[np.float64]:
    """The textbook formula for directions."""
    a, b = direction(one), direction(other)
    angle = np.arccos(a @ b)
    return (np.sin((1 - t) * angle) * a + np.sin(t * angle) * b) / np.sin(angle)


@given(st.integers(0, 1000), st.floats(0.01, 0.99))
def test_two_voices_give_spherical_linear_interpolation(seed: int, t: float) -> None:
    one, other = voice(seed, 2.0), voice(seed + 5000, 3.0)
    blended = blend([one, other], [1 - t, t])
    np.testing.assert_allclose(direction(blended), slerp(one, other, t), atol=EPSILON)
    assert np.linalg.norm(blended) == pytest.approx(2 * (1 - t) + 3 * t, rel=EPSILON)


@given(st.integers(0, 1000), st.lists(st.floats(0.01, 10), min_size=2, max_size=6), st.randoms())
def test_the_order_does_not_matter(seed: int, weights: list[float], random: object) -> None:
    members = list(zip([voice(seed + n) for n in range(len(weights))], weights, strict=True))
    shuffled = members.copy()
    random.shuffle(shuffled)
    one, other = (blend(*zip(*order, strict=True)) for order in (members, shuffled))
    np.testing.assert_allclose(one, other, atol=EPSILON)


@given(st.integers(0, 1000), st.floats(0.001, 1000))
def test_only_the_ratio_of_the_weights_matters(seed: int, factor: float) -> None:
    voices = [voice(seed), voice(seed + 1), voice(seed + 2)]
    scaled = blend(voices, [factor, 2 * factor, 3 * factor])
    np.testing.assert_allclose(scaled, blend(voices, [1, 2, 3]), atol=EPSILON)


def test_the_blend_is_closer_to_the_heavier_voice() -> None:
    one, other = voice(1), voice(2)
    blended = direction(blend([one, other], [3, 1]))
    assert blended @ direction(one) > blended @ direction(other) > 0


def test_one_voice_and_voices_without_weight_are_unchanged() -> None:
    one = voice(1, 7.3)
    assert np.array_equal(blend([one], [0.4]), one)
    assert np.array_equal(blend([one, voice(2), -one], [0.4, 0, 0]), one)


def test_the_same_voice_twice_gives_that_voice() -> None:
    np.testing.assert_allclose(blend([voice(1), voice(1)], [1, 2]), voice(1), atol=EPSILON)


@pytest.mark.parametrize(
    ("embeddings", "weights", "reason"),
    [
        ([voice(1), voice(2)], [0, 0], "at least one weight"),
        ([voice(1), np.zeros(WIDTH, np.float32)], [1, 1], "all zeros"),
        ([voice(1), -voice(1)], [1, 1], "opposite"),
        ([voice(1), -2 * voice(1)], [2, 1], "opposite"),
    ],
)
def test_undefined_blends_are_errors(embeddings: list[NDArray[np.float32]], weights: list[float], reason: str) -> None:
    with pytest.raises(BlendError, match=reason):
        blend(embeddings, weights)


@pytest.mark.filterwarnings("error")
def test_extreme_values_are_blended() -> None:
    huge = np.full(WIDTH, 3e37, np.float32)
    blended = blend([huge, voice(1, 1e-30)], [1e-300, 1e300])
    assert np.isfinite(blended).all()
