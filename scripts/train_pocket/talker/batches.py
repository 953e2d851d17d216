"""Batches of examples of similar length, padded to one of a few lengths, because each shape needs a CUDA graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scripts.train_pocket.talker.examples import Example
from scripts.train_pocket.talker.predictor import FRAMES_PER_ROW

LENGTHS = (48, 64, 80, 96, 112, 128, 144, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 1024)
"""Lengths in rows to which examples are padded. Longer examples are not used."""
NO_TARGET = -100
_PREDICTOR_SHARE = 0.5
"""Number of frames for the code predictor as a share of the positions. A full batch has about as many."""


class Batch(NamedTuple):
    """B examples of L rows. Padding after an example has no effect, because attention is causal.

    text: int16 [B, L]. codes: int16 [B, L, 16]. xvectors: float32 [B, hidden]. xvector_rows: int64 [B]. See
    ``TrainableTalker.hidden``.
    targets: int16 [B, L], the code of codebook 0 to predict, the number of codes for eos, or NO_TARGET.
    before_frames: int64 [N], indices into B * L of rows that precede a frame for the code predictor. N depends only on
    the shape.
    """

    text: NDArray[np.int16]
    codes: NDArray[np.int16]
    xvectors: NDArray[np.float32]
    xvector_rows: NDArray[np.int64]
    targets: NDArray[np.int16]
    before_frames: NDArray[np.int64]


def batches(
    examples: Iterable[Example], positions: int, width: int, eos: int, random: np.random.Generator
) -> Iterator[Batch]:
    """Yield full batches of about ``positions`` positions. width: of x-vectors. eos: target value for eos."""
    groups: defaultdict[int, list[Example]] = defaultdict(list)
    for example in examples:
        length = padded_length(len(example))
        group = groups[length]
        group.append(example)
        if len(group) >= max(1, positions // length):
            del groups[length]
            yield collate(group, width, eos, random)


def collate(examples: Sequence[Example], width: int, eos: int, random: np.random.Generator) -> Batch:
    """Return a batch that is as long as its longest example needs."""
    length = padded_length(max(len(example) for example in examples))
    books = examples[0].codes.shape[1]
    text = np.full((len(examples), length), -1, np.int16)
    codes = np.full((len(examples), length, books), -1, np.int16)
    targets = np.full((len(examples), length), NO_TARGET, np.int16)
    xvectors = np.zeros((len(examples), width), np.float32)
    before_frames = []
    for row, example in enumerate(examples):
        end = len(example)
        text[row, :end], codes[row, :end] = example.text, example.codes
        targets[row, example.first : end - 1] = example.codes[example.first + 1 :, 0]
        targets[row, end - 1] = eos
        if example.xvector is not None:
            xvectors[row] = example.xvector
        before_frames.append(np.arange(row * length + example.first, row * length + end - 1))
    return Batch(
        text=text,
        codes=codes,
        xvectors=xvectors,
        xvector_rows=np.array([example.xvector_row for example in examples]),
        targets=targets,
        before_frames=_choose_frames(np.concatenate(before_frames), len(examples) * length, random),
    )


def padded_length(length: int) -> int:
    """Return the smallest of LENGTHS that is at least ``length``. Raises StopIteration if there is none."""
    return next(each for each in LENGTHS if each >= length)


def _choose_frames(frames: NDArray[np.int64], positions: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Choose as many frames as the shape requires. If there are too few, some are repeated."""
    count = max(FRAMES_PER_ROW, int(_PREDICTOR_SHARE * positions) // FRAMES_PER_ROW * FRAMES_PER_ROW)
    shuffled = random.permutation(frames)
    return np.resize(shuffled, count)
