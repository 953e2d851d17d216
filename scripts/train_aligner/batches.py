"""Batches of utterances of similar length, with the token range of each frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from scripts.train_aligner.corpus import Utterance
from server.alignment.features import HOP

_WINDOW = 32
"""Batches that are sorted by length together."""
_FRAMES_PER_LABEL = 2


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Padded utterances on the device.

    samples: float [b, frames * HOP]. frame_mask: [b, frames]. segments: int64 [b, frames], the word (2 w + 1) or
    boundary (2 k) of each frame, -1 for padding. within: [b, frames], position in the segment, 0 to 1. phonemes: int64
    [b, frames], -100 for padding. ids, token_mask, token_segments, token_within: the same of the tokens [b, tokens].
    """

    samples: Tensor
    frame_mask: Tensor
    segments: Tensor
    within: Tensor
    phonemes: Tensor
    ids: Tensor
    token_mask: Tensor
    token_segments: Tensor
    token_within: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class _Prepared:
    """An utterance on the device, with the fields of ``Batch`` without padding. samples: int16."""

    samples: Tensor
    segments: Tensor
    within: Tensor
    phonemes: Tensor
    ids: Tensor
    token_segments: Tensor
    token_within: Tensor


class Batches:
    """Endless random batches of about ``frames`` frames."""

    def __init__(self, corpus: Sequence[Utterance], frames: int, device: torch.device) -> None:
        """Copy the corpus to ``device``."""
        self._frames = frames
        self._items = [_prepared(utterance, device) for utterance in corpus]
        self._lengths = np.array([len(item.segments) for item in self._items])

    def __iter__(self) -> Iterator[Batch]:
        random = np.random.default_rng(0)
        while True:
            order = random.permutation(len(self._items))
            window = max(1, _WINDOW * self._frames // int(self._lengths.mean()))
            batches: list[list[int]] = []
            for start in range(0, len(order), window):
                batches += self._grouped(order[start : start + window])
            for index in random.permutation(len(batches)):
                yield _batch([self._items[item] for item in batches[index]])

    def _grouped(self, indices: npt.NDArray[np.int64]) -> list[list[int]]:
        groups: list[list[int]] = [[]]
        for index in sorted(indices.tolist(), key=lambda item: int(self._lengths[item])):
            if (len(groups[-1]) + 1) * self._lengths[index] > self._frames and groups[-1]:
                groups.append([])
            groups[-1].append(index)
        return groups


def _prepared(utterance: Utterance, device: torch.device) -> _Prepared:
    frames = len(utterance.samples) // HOP
    segments, within = np.zeros(frames, np.int64), np.full(frames, 0.5, np.float32)
    following = 0
    for word, (start, end) in enumerate((utterance.spans * _FRAMES_PER_LABEL).tolist()):
        segments[following:start] = 2 * word
        segments[start:end] = 2 * word + 1
        within[start:end] = (np.arange(end - start) + 0.5) / (end - start)
        following = end
    segments[following:] = 2 * len(utterance.spans)
    words = utterance.tokens.words
    boundaries = np.cumsum(words < 0) - 1
    token_segments = np.where(words < 0, 2 * boundaries, 2 * words + 1)
    counts = np.bincount(token_segments)
    firsts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    token_within = (np.arange(len(words)) - firsts[token_segments] + 0.5) / counts[token_segments]
    arrays = (
        utterance.samples[: frames * HOP],
        segments,
        within,
        np.repeat(utterance.labels, _FRAMES_PER_LABEL)[:frames].astype(np.int64),
        utterance.tokens.ids,
        token_segments,
        token_within.astype(np.float32),
    )
    return _Prepared(*(torch.from_numpy(array.copy()).to(device) for array in arrays))


def _batch(items: Sequence[_Prepared]) -> Batch:
    def padded(name: str, value: float) -> Tensor:
        return pad_sequence([getattr(item, name) for item in items], batch_first=True, padding_value=value)

    segments, token_segments = padded("segments", -1), padded("token_segments", -2)
    return Batch(
        padded("samples", 0).float() / 32768,
        (segments >= 0).float(),
        segments,
        padded("within", 0.5),
        padded("phonemes", -100),
        padded("ids", 0),
        (token_segments >= 0).float(),
        token_segments,
        padded("token_within", 0.5),
    )
