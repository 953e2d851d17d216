"""The talker is trained with texts, references and vectors that are worse than the teacher's."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.prompt.tokenizer import TextTokenizer
from scripts.train_pocket.config import Layouts
from scripts.train_pocket.talker.best import BEST, Best
from scripts.train_pocket.talker.robustness import DropoutTokenizer, corrupt
from tests.unit.train_pocket.small_pocket import new_trainer, small_pocket, stand_in_drawing

POCKET = Path(__file__).parents[3] / "models" / "pocket"
TEXT = "assistant\nThe archaeologist's assistant uncovered a fragile amphora."


@pytest.fixture(scope="module")
def drawing(tmp_path_factory):
    return stand_in_drawing(small_pocket(), tmp_path_factory.mktemp("stand_in"), utterances=24)


@pytest.fixture(scope="module")
def tokenizers():
    return TextTokenizer(POCKET), DropoutTokenizer(POCKET, 0.3)


def in_context(drawing, **shares):
    only = {"layouts": Layouts(full=0.0, streaming=0.0, in_context=1.0), "reference_frames": (6, 60)} | shares
    return replace(drawing, shares=drawing.shares.model_copy(update=only))


def test_a_text_is_split_differently_each_time_but_stays_the_same(tokenizers):
    exact, varied = tokenizers
    spellings = [varied.encode(TEXT) for _ in range(8)]
    assert len({tuple(ids) for ids in spellings}) > 4
    names = {token_id: token for token, token_id in exact.vocab.items()}
    assert {"".join(names[token_id] for token_id in ids) for ids in spellings} == {
        "".join(names[token_id] for token_id in exact.encode(TEXT))
    }


def test_the_role_keeps_its_tokens(tokenizers):
    exact, varied = tokenizers
    role = exact.encode("assistant\n")
    assert all(varied.encode(TEXT)[: len(role)] == role for _ in range(20))
    assert varied.encode("\n") == exact.encode("\n")


def test_codes_are_replaced_by_those_of_the_same_codebook():
    random = np.random.default_rng(3)
    codes = np.zeros((200, 16), np.int64)
    others = np.broadcast_to(np.arange(1, 17, dtype=np.int16), (30, 16))
    corrupted = corrupt(codes, others, random)
    changed = corrupted != codes
    assert 0.03 < changed.mean() < 0.65
    assert all(set(corrupted[:, book]) <= {0, book + 1} for book in range(16))


def test_the_frames_of_a_corrupted_reference_are_no_targets(drawing):
    random = np.random.default_rng(1)
    sampler = in_context(drawing, corrupted=1.0, degraded=0.0)
    references = 0
    for utterance in drawing.corpus.trained:
        example = sampler.example(utterance, random)
        if int((example.codes[:, 1] >= 0).sum()) > len(utterance.codes):
            references += 1
            assert len(example) - 1 - example.first == len(utterance.codes)
            assert np.array_equal(example.codes[example.first + 1 :], utterance.codes)
    assert references


def test_a_reference_may_have_the_vector_of_another_speaker(drawing):
    random = np.random.default_rng(1)
    sampler = in_context(drawing, other_xvector=1.0, degraded=0.0, xvector_noise=0.0)
    speaker = drawing.corpus.trained[0].speaker
    utterance = next(each for each in drawing.corpus.trained if each.speaker == speaker)
    own = drawing.corpus.vectors[speaker][1] * np.float32(drawing.xvector_scale)
    vectors = [sampler.example(utterance, random).xvector for _ in range(40)]
    others = [vector for vector in vectors if not any(np.allclose(vector, each) for each in own)]
    assert others


def test_the_weights_with_the_lowest_held_out_loss_are_kept(drawing, tmp_path, monkeypatch):
    trainer, losses = new_trainer(small_pocket()), iter([2.0, 1.0, 3.0])

    class Report:
        books = (0.0,)

        def __init__(self, first):
            self.first = first

    monkeypatch.setattr("scripts.train_pocket.talker.best.evaluate", lambda *_: Report(next(losses)))
    best, written = Best(tmp_path), []
    for step in (10, 20, 30):
        trainer.steps = step
        best.compare(trainer, [], 0.5)
        written.append((tmp_path / BEST).read_bytes())
    assert best.steps == 20
    assert written[0] != written[1] == written[2]
