"""The training corpus: the teacher's utterances with the word of each 10 ms frame, in memory."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from scripts.train_aligner.labels import Unaligned, word_spans
from scripts.train_pocket.audio_shards import FRAME_SAMPLES, LABELS
from scripts.train_pocket.teacher_audio import Inventory
from scripts.train_pocket.utterances import PlannedUtterance, read_plan
from server.alignment.tokens import Tokens, tokens_of, words_of

LABEL_SECONDS = 0.02
_HELD_OUT_SPEAKERS = 25
"""One in this many speakers is held out for evaluation."""
_HELD_OUT_TEXTS = 12
"""With few speakers, one in this many texts is held out for evaluation."""


@dataclass(frozen=True, slots=True, eq=False)
class Utterance:
    """An utterance with known word times.

    samples: int16 [n] at 24 kHz. labels: int16 [n / 480], the teacher's phoneme of each 20 ms. spans: int64 [words, 2],
    first label of each word, and the one after its last.
    """

    text: str
    speaker: str
    samples: npt.NDArray[np.int16]
    labels: npt.NDArray[np.int16]
    tokens: Tokens
    spans: npt.NDArray[np.int64]


def read_corpus(audio: Path, plan: Path, vocabulary: Path, hours: float = float("inf")) -> list[Utterance]:
    """Return the utterances of all shards whose words and phoneme words agree, up to ``hours`` of audio."""
    symbols: dict[str, int] = json.loads(vocabulary.read_text(encoding="utf-8"))
    inventory = Inventory(symbols)
    planned = {utterance.id: utterance for utterance in read_plan(plan)}
    corpus: list[Utterance] = []
    counts: Counter[str] = Counter()
    samples_left = hours * 3600 * 24_000
    for file in sorted(audio.glob("shard-*.npz")):
        with np.load(file) as shard:
            ids, samples, starts, labels = (shard[name] for name in ("ids", "samples", "starts", "labels"))
        for index, number in enumerate(ids.tolist()):
            begin, end = int(starts[index]), int(starts[index + 1])
            quarters = labels[begin // FRAME_SAMPLES : end // FRAME_SAMPLES].reshape(-1)
            assert len(quarters) == (end - begin) // FRAME_SAMPLES * LABELS
            utterance = _utterance(planned.get(number), samples[begin:end], quarters, symbols, inventory, counts)
            if utterance is not None:
                corpus.append(utterance)
                samples_left -= end - begin
        if samples_left < 0:
            break
    seconds = sum(len(utterance.samples) for utterance in corpus) / 24_000
    print(f"corpus utterances={len(corpus)} hours={seconds / 3600:.2f} dropped={dict(counts)}", flush=True)
    return corpus


def _utterance(
    planned: PlannedUtterance | None,
    samples: npt.NDArray[np.int16],
    labels: npt.NDArray[np.int16],
    symbols: dict[str, int],
    inventory: Inventory,
    dropped: Counter[str],
) -> Utterance | None:
    if planned is None:
        dropped["not in the plan"] += 1
        return None
    words = words_of(planned.text)
    try:
        spans = word_spans(planned.phonemes, labels, symbols, inventory)
    except Unaligned:
        dropped["labels do not fit"] += 1
        return None
    if len(spans) != len(words) or not words:
        dropped["word counts differ"] += 1
        return None
    return Utterance(planned.text, planned.speaker, samples, labels, tokens_of(words), spans)


def split(corpus: list[Utterance]) -> tuple[list[Utterance], list[Utterance]]:
    """Return (training, evaluation). No text is in both, and no speaker, if there are enough of them."""
    several = len({utterance.speaker for utterance in corpus}) >= 2 * _HELD_OUT_SPEAKERS
    training: list[Utterance] = []
    held_out: list[Utterance] = []
    for utterance in corpus:
        key, share = (utterance.speaker, _HELD_OUT_SPEAKERS) if several else (utterance.text, _HELD_OUT_TEXTS)
        (held_out if _hash(key) % share == 0 else training).append(utterance)
    texts = {utterance.text for utterance in training}
    return training, [utterance for utterance in held_out if utterance.text not in texts]


def _hash(text: str) -> int:
    return zlib.crc32(text.encode())
