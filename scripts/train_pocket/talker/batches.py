"""Examples of like length, padded to one of a few lengths: a GPU replays what it has recorded for each shape."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scripts.train_pocket.talker.examples import Example
from scripts.train_pocket.talker.predictor import FRAMES_TOGETHER

LENGTHS = (48, 64, 80, 96, 112, 128, 144, 160, 192, 224, 256, 320, 384, 512)
"""Rows that an example is padded to; longer ones are left out."""
NO_TARGET = -100
_PREDICTED = 0.5
"""Frames for the code predictor, as a share of the positions: nearly all that a full batch has."""


class Batch(NamedTuple):
    """B examples of L rows. What is right of an example's end is harmless, as rows look only to their left.

    text int16 [B, L], codes int16 [B, L, 16], xvectors float32 [B, hidden] and xvector_rows int64 [B]: see
    ``TrainableTalker.hidden``. targets int16 [B, L]: the code of codebook 0 that a row is to give, the number of
    codes for eos, or NO_TARGET. before_frames int64 [N]: of B * L, rows whose next row holds a frame for the code
    predictor; N depends on the shape alone.
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
    """Full batches of about ``positions`` positions, each of one length. width: of x-vectors; eos: its class."""
    waiting: defaultdict[int, list[Example]] = defaultdict(list)
    for example in examples:
        length = padded(len(example))
        group = waiting[length]
        group.append(example)
        if len(group) >= max(1, positions // length):
            del waiting[length]
            yield collate(group, width, eos, random)


def collate(examples: Sequence[Example], width: int, eos: int, random: np.random.Generator) -> Batch:
    """One batch, as long as its longest example needs."""
    length = padded(max(len(example) for example in examples))
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
        before_frames=_drawn(np.concatenate(before_frames), len(examples) * length, random),
    )


def padded(length: int) -> int:
    """The least of LENGTHS that ``length`` rows fit in. Raises StopIteration for none."""
    return next(each for each in LENGTHS if each >= length)


def _drawn(frames: NDArray[np.int64], positions: int, random: np.random.Generator) -> NDArray[np.int64]:
    """As many frames as the shape asks for; some twice where there are too few."""
    count = max(FRAMES_TOGETHER, int(_PREDICTED * positions) // FRAMES_TOGETHER * FRAMES_TOGETHER)
    mixed = random.permutation(frames)
    return np.resize(mixed, count)
