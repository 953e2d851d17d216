"""Word times from the phoneme labels of the teacher's shards."""

from __future__ import annotations

import numpy as np
import pytest

from scripts.train_aligner.labels import Unaligned, word_spans
from scripts.train_pocket.teacher_audio import Inventory

SYMBOLS = ' ;:,.!?—…"()“”ˈˌːaeinst'
VOCABULARY = {symbol: index + 1 for index, symbol in enumerate(SYMBOLS)}


def spans(phonemes: str, sounds: str) -> list[list[int]]:
    """The spans for a label for each character of ``sounds``, "_" for silence."""
    labels = np.array([VOCABULARY.get(sound, 0) for sound in sounds], np.int16)
    return word_spans(phonemes, labels, VOCABULARY, Inventory(VOCABULARY)).tolist()


def test_each_word_lasts_from_its_first_sound_to_its_last() -> None:
    assert spans("sˈa, tˈen.", "__ssaa__tteenn__") == [[2, 6], [8, 14]]


def test_a_pause_within_a_word_belongs_to_it() -> None:
    assert spans("ˈata ne", "aa___ttannnee") == [[0, 8], [8, 13]]


def test_neighboring_words_share_a_sound_that_ends_one_and_begins_the_other() -> None:
    assert spans("as sa", "aassssaa") == [[0, 4], [4, 8]]


def test_a_dash_separates_words_and_marks_alone_are_none() -> None:
    assert spans("as—ta . ˈen!", "aasttaa__een") == [[0, 3], [3, 7], [9, 12]]


def test_a_sound_without_a_label_does_not_matter() -> None:
    assert spans("asta in", "aastt__iinn") == [[0, 5], [7, 11]]


@pytest.mark.parametrize("sounds", ["sstt", "aa", "aasstteeiinn", "____"])
def test_labels_of_another_text_are_refused(sounds: str) -> None:
    with pytest.raises(Unaligned):
        spans("asa tea nia", sounds)
