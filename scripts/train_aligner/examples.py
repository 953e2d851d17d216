"""Held-out speech with known word times, written by the training as one .npz."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from scripts.train_aligner.corpus import LABEL_SECONDS, Utterance


def write_examples(file: Path, utterances: Sequence[Utterance]) -> None:
    """Write utterances with their word times, compressed, without loss."""
    with file.open("wb") as out:
        np.savez_compressed(
            out,
            texts=np.array([utterance.text for utterance in utterances]),
            speakers=np.array([utterance.speaker for utterance in utterances]),
            samples=np.concatenate([utterance.samples for utterance in utterances]),
            starts=np.cumsum([0, *(len(utterance.samples) for utterance in utterances)]),
            spans=np.concatenate([utterance.spans for utterance in utterances]) * LABEL_SECONDS,
            words=np.cumsum([0, *(len(utterance.spans) for utterance in utterances)]),
        )
