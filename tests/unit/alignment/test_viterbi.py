"""The best path of frames through tokens."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from numpy.typing import NDArray

from server.alignment.viterbi import _SKIPPED_LETTER, Viterbi

WORDS = np.array([-1, 0, 0, -1, 1, -1])
"""Two words, with two letters and with one."""


def best_path(blocks: list[NDArray[np.float32]], words: NDArray[np.int64], *, to_end: bool = True) -> NDArray[np.int64]:
    viterbi = Viterbi(words)
    for block in blocks:
        viterbi.add(block)
    return viterbi.rest(to_end=to_end)


def score(path: tuple[int, ...], rows: NDArray[np.float32]) -> float | None:
    """The log-probability of a path; None if it leaves out a word or goes back."""
    if path[0] > 2 or path[-1] < 4 or any(later < earlier for earlier, later in pairwise(path)):
        return None
    if not {1, 2} & set(path) or 4 not in path:
        return None
    total = sum(float(rows[frame, token]) for frame, token in enumerate(path))
    for earlier, later in pairwise(path):
        total += _SKIPPED_LETTER * sum(WORDS[token] >= 0 for token in range(earlier + 1, later))
    return total


@pytest.mark.parametrize("seed", range(8))
def test_the_path_is_the_best_of_all_possible_ones(seed: int) -> None:
    rows = np.random.default_rng(seed).normal(0, 2, (6, len(WORDS))).astype(np.float32)
    scored = [(total, path) for path in product(range(6), repeat=6) if (total := score(path, rows)) is not None]
    best, expected = max(scored)
    path = best_path([rows[:2], rows[2:]], WORDS)
    assert score(tuple(path.tolist()), rows) == pytest.approx(best)
    assert tuple(path.tolist()) == expected


def test_cut_speech_ends_where_it_was_cut() -> None:
    rows = np.full((6, len(WORDS)), -20.0, np.float32)
    rows[:3, 1] = rows[3:, 2] = 0.0
    assert best_path([rows], WORDS, to_end=False).tolist() == [1, 1, 1, 2, 2, 2]
    assert best_path([rows], WORDS)[-1] >= 4


def test_a_long_text_is_followed_to_its_end() -> None:
    words = np.repeat(np.arange(900), 3)
    words[::3] = -1
    rows = np.full((2 * len(words), len(words)), -9.0, np.float32)
    rows[np.arange(len(rows)), np.arange(len(rows)) // 2] = 0.0
    assert np.array_equal(best_path([rows], words), np.arange(len(rows)) // 2)


def test_fewer_frames_than_tokens_give_a_path() -> None:
    words = np.repeat(np.arange(20), 3)
    words[::3] = -1
    path = best_path([np.zeros((3, len(words)), np.float32)], words)
    assert len(path) == 3
    assert (np.diff(path) >= 0).all()


@pytest.mark.parametrize("step", [1, 7, 100])
def test_what_is_settled_early_is_the_beginning_of_the_best_path(step: int) -> None:
    words = np.repeat(np.arange(60), 4)
    words[::4] = -1
    rows = np.random.default_rng(step).normal(0, 3, (500, len(words))).astype(np.float32)
    rows[np.arange(500), np.arange(500) * len(words) // 500] += 40
    viterbi, settled = Viterbi(words), [np.zeros(0, np.int64)]
    for start in range(0, len(rows), step):
        viterbi.add(rows[start : start + step])
        settled.append(viterbi.settled())
    early = sum(map(len, settled))
    assert early > 200
    assert np.array_equal(np.concatenate([*settled, viterbi.rest()]), best_path([rows], words))


def test_speech_that_ends_early_has_a_path_wherever_the_band_is() -> None:
    owners = np.array([-1, *(owner for word in range(110) for owner in [*[word] * 5, -1])])
    diagonal = np.where(np.eye(len(owners), dtype=bool), 0, -8).astype(np.float32)
    for frames in range(300, 420):
        path = best_path([diagonal[:frames]], owners)
        assert len(path) == frames
        assert (np.diff(path) >= 0).all()
