"""The data to fine-tune a checkpoint: short texts for the teacher, and speech that the checkpoint makes itself."""

import re
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
from scripts.train_pocket.text_cleaning import HeldOutSentences, key
from scripts.train_pocket.utterances import PlannedUtterance, read_plan, write_plan
from scripts.train_pocket.voices import named_speakers

POCKET = Path(__file__).parents[3] / "models" / "pocket"


def test_short_texts_are_different_and_not_the_judges():
    texts = list(islice(short_texts.short_texts(Random(1)), 2000))
    judged = {key(item.spoken) for item in read_items()["very_short"]}
    assert len(set(texts)) == len(texts)
    assert not judged & {key(text) for text in texts}
    assert max(len(text) for text in texts) <= 28
    assert not any(character in text for text in texts for character in "{}[]|0123456789")


def test_each_voice_says_its_number_of_texts():
    speakers = named_speakers(load().voices)
    texts = iter(["Yes.", "unreadable", "No.", "Maybe."])
    planned = list(
        short_texts.plan(
            texts, {"emma": 2, "ava": 1}, speakers, lambda text, _: None if text == "unreadable" else "a", Random(1)
        )
    )
    assert sorted(each.speaker for each in planned) == ["ava", "emma", "emma"]
    assert [each.text for each in planned] == ["Yes.", "No.", "Maybe."]
    assert {each.speaker: each.accent for each in planned} == {"ava": "american", "emma": "british"}


def test_sentences_of_the_documentation_are_plain_and_not_the_judges():
    sentences = own_speech.sentences()
    assert len(sentences) > 500
    judged = HeldOutSentences(item.spoken for items in read_items().values() for item in items)
    assert not any(judged.overlaps(text) for text in sentences)
    assert not any(character in text for text in sentences for character in "`|<>[]#*_")


def test_own_speech_joins_the_data_that_the_talker_learns(tmp_path, monkeypatch, capsys):
    write_plan(tmp_path / "plan.jsonl.gz", [PlannedUtterance(7, "Yes.", "jes", "emma", 1.0, "british")])
    codes_file.write(tmp_path / "codes", [(7, np.zeros((9, 16), np.int16))])
    command = ["own_speech", "--checkpoint", str(POCKET), "--data", str(tmp_path), "--sentences", "3"]
    monkeypatch.setattr(sys, "argv", command)
    own_speech.main()
    own_speech.main()  # adds more
    planned = {each.id: each for each in read_plan(tmp_path / "plan.jsonl.gz")}
    own = [each for number, each in planned.items() if number != 7]
    printed = re.findall(r"^(\d+) utterances, (\d+) frames$", capsys.readouterr().out, re.MULTILINE)
    assert len(own) == sum(int(utterances) for utterances, _ in printed) > 1
    names = list(load().voices.named)
    corpus = read_corpus(tmp_path / "plan.jsonl.gz", tmp_path / "codes", None, named=names)
    lengths = {each.id: len(each.codes) for each in corpus.trained}
    assert lengths.keys() == planned.keys()
    assert lengths.pop(7) == 9
    assert sum(lengths.values()) == sum(int(frames) for _, frames in printed)


@pytest.mark.parametrize("argument", ["emma", "emma=many", "someone=3"])
def test_a_number_of_texts_that_cannot_be_used_is_refused(argument, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["short_texts", argument, "--vocabulary", "none", "--out", str(tmp_path)])
    with pytest.raises(SystemExit):
        short_texts.main()
    assert f"must be NAME=COUNT with a NAME of ava, adam, emma, george, bella, oliver, got '{argument}'" in (
        capsys.readouterr().err
    )
