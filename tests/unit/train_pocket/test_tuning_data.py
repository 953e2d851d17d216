"""The data of a further training on a CPU: short texts for the teacher, and the checkpoint's own speech."""

import sys
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np
import pytest

from scripts.judge.class_items import read_items
from scripts.train_pocket import codes as codes_file
from scripts.train_pocket import own_speech, short_texts
from scripts.train_pocket.config import load
from scripts.train_pocket.talker.corpus import read_corpus
from scripts.train_pocket.utterances import PlannedUtterance, read_plan, write_plan

POCKET = Path(__file__).parents[3] / "models" / "pocket"


def test_short_texts_are_different_and_not_the_judges():
    texts = list(islice(short_texts.short_texts(Random(1)), 1000))
    judged = {item.spoken for items in read_items().values() for item in items}
    assert len(set(texts)) == len(texts)
    assert not judged & set(texts)
    assert max(len(text.split()) for text in texts) <= 6
    assert not any(character in text for text in texts for character in "{}[]|0123456789")


def test_each_voice_says_its_number_of_texts():
    speakers = short_texts.teacher_speakers(load())
    texts = iter(["Yes.", "unreadable", "No.", "Maybe."])
    planned = list(
        short_texts.plan(
            texts, {"emma": 2, "ava": 1}, speakers, lambda text, _: None if text == "unreadable" else "a", Random(1)
        )
    )
    assert sorted(each.speaker for each in planned) == ["ava", "emma", "emma"]
    assert [each.text for each in planned] == ["Yes.", "No.", "Maybe."]
    assert {each.speaker: each.accent for each in planned} == {"ava": "american", "emma": "british"}


def test_the_teacher_speaks_with_the_voices_of_the_checkpoint():
    pocket = load()
    speakers = short_texts.teacher_speakers(pocket)
    assert speakers["george"].mix == pocket.voices.rows["george"] != pocket.voices.named["george"].mix
    assert speakers["emma"].mix == pocket.voices.named["emma"].mix


def test_sentences_of_the_documentation_are_plain():
    sentences = own_speech.sentences()
    assert len(sentences) > 300
    assert not any(character in text for text in sentences for character in "`|<>[]#*_")


def test_own_speech_joins_the_data_that_the_talker_learns(tmp_path, monkeypatch, capsys):
    write_plan(tmp_path / "plan.jsonl.gz", [PlannedUtterance(7, "Yes.", "jes", "emma", 1.0, "british")])
    codes_file.write(tmp_path / "codes", [(7, np.zeros((9, 16), np.int16))])
    command = ["own_speech", "--checkpoint", str(POCKET), "--data", str(tmp_path), "--sentences", "3"]
    monkeypatch.setattr(sys, "argv", command)
    own_speech.main()
    planned = {each.id: each for each in read_plan(tmp_path / "plan.jsonl.gz")}
    assert planned[7].text == "Yes."
    own = [each for number, each in planned.items() if number != 7]
    assert capsys.readouterr().out.startswith(f"{len(own)} utterances, ")
    assert own
    corpus = read_corpus(tmp_path / "plan.jsonl.gz", tmp_path / "codes", None, named=["emma", "ava", "adam"])
    lengths = {each.text: len(each.codes) for each in corpus.trained}
    assert lengths["Yes."] == 9
    assert all(10 < lengths[each.text] < 200 for each in own if each.speaker in ("emma", "ava", "adam"))


@pytest.mark.parametrize("voices", [["emma"], ["emma=many"]])
def test_counts_that_cannot_be_read_are_refused(voices):
    with pytest.raises(ValueError, match=r"unpack|invalid literal"):
        short_texts.parse_counts(voices)
