"""The speakers of the training plan, and the share of each."""

import random
from collections import Counter

import numpy as np
import pytest

from scripts.train_pocket import plan
from scripts.train_pocket.config import load
from scripts.train_pocket.speakers import Speaker, VoiceBank, read_speakers, write_speakers
from scripts.train_pocket.utterances import read_plan, write_plan
from scripts.train_pocket.voices import _FOREIGN, distance, speakers

VOICES = load().voices.model_copy(update={"mixed": 100, "varied": 50, "unseen": 10})
SPEAKERS = speakers(VOICES, 1)


def phonemes_of(text, accent):
    return None if "?" in text else f"{accent} {text}"


def test_mixtures_have_two_or_three_mostly_english_voices():
    mixed = [speaker for speaker in SPEAKERS.values() if speaker.kind == "mixed"]
    assert len(mixed) == 100
    for speaker in mixed:
        assert len(speaker.mix) in (2, 3)
        assert sum(speaker.mix.values()) == pytest.approx(1)
        assert sum(weight for voice, weight in speaker.mix.items() if voice in _FOREIGN) <= 0.351
        main = max(speaker.mix, key=speaker.mix.get)
        assert speaker.accent == {"a": "american", "b": "british"}[main[0]]


def test_unseen_speakers_differ_from_all_others():
    others = [other.mix for other in SPEAKERS.values() if other.kind in ("named", "mixed")]
    for speaker in SPEAKERS.values():
        if speaker.kind == "unseen":
            assert min(distance(speaker.mix, other) for other in others) >= 0.2


def test_the_same_seed_gives_the_same_speakers(tmp_path):
    write_speakers(tmp_path / "speakers.json", speakers(VOICES, 1))
    assert read_speakers(tmp_path / "speakers.json") == SPEAKERS
    assert speakers(VOICES, 2) != SPEAKERS


def test_named_speakers_get_their_share_and_unseen_ones_nothing():
    counts = Counter(plan.assign_speakers(VOICES, SPEAKERS, 5000, random.Random(1)))
    for name, voice in VOICES.named.items():
        assert counts[name] == round(voice.share * 5000)
    assert not any(SPEAKERS[name].kind == "unseen" for name in counts)
    for kind in ("mixed", "varied"):
        each = [counts[name] for name, speaker in SPEAKERS.items() if speaker.kind == kind]
        assert max(each) - min(each) <= 1
    rest = 5000 - sum(counts[name] for name in VOICES.named)
    varied = sum(counts[name] for name, speaker in SPEAKERS.items() if speaker.kind == "varied")
    assert varied == round(VOICES.varied_share * rest)


def test_ids_are_dense_and_unreadable_texts_are_dropped(tmp_path):
    texts = [f"Sentence {index}." for index in range(40)] + ["What?"]
    planned = list(plan.plan(texts, VOICES, SPEAKERS, phonemes_of, random.Random(1)))
    assert [utterance.id for utterance in planned] == list(range(40))
    assert all(utterance.phonemes.startswith(SPEAKERS[utterance.speaker].accent) for utterance in planned)
    write_plan(tmp_path / "plan.jsonl.gz", planned)
    assert list(read_plan(tmp_path / "plan.jsonl.gz")) == planned
    assert list(read_plan(tmp_path / "plan.jsonl.gz", first=5, count=3)) == planned[5:8]


def test_each_utterance_has_the_phonemes_of_its_own_words():
    texts = ["One bird.", "What?", "Two cats."]
    notations = {"One bird.": "w1Vn b1Rrd", "What?": "w1At", "Two cats.": "t1u k1ats"}
    planned = plan.plan(texts, VOICES, SPEAKERS, phonemes_of, random.Random(1), notations.get)
    assert {each.text: each.words for each in planned} == {text: notations[text] for text in texts if text != "What?"}


def test_each_unseen_speaker_gets_a_reference_and_three_sentences():
    kept = list(plan.unseen([f"Sentence {index}." for index in range(7)], SPEAKERS, phonemes_of))
    assert [utterance.id for utterance in kept] == list(range(10_000_000, 10_000_040))
    assert set(Counter(utterance.speaker for utterance in kept).values()) == {4}
    with pytest.raises(ValueError, match="no phonemes for"):
        list(plan.unseen(["What?"], SPEAKERS, phonemes_of))


def test_a_style_is_the_weighted_sum_of_the_rows_for_its_length(tmp_path):
    packs = {name: np.random.default_rng(index).normal(size=(510, 1, 256)) for index, name in enumerate("ab")}
    np.savez(tmp_path / "voices_x.npz", **packs)
    bank = VoiceBank(tmp_path)
    mixture = Speaker({"a": 0.25, "b": 0.75}, "american", "mixed")
    expected = 0.25 * packs["a"][11, 0] + 0.75 * packs["b"][11, 0]
    np.testing.assert_allclose(bank.style(mixture, 12), expected, atol=1e-5)
    np.testing.assert_allclose(bank.style(Speaker({"a": 1.0}, "american", "mixed"), 600), packs["a"][509, 0], atol=1e-5)


def test_a_varied_speaker_has_its_own_timbre_and_the_rhythm_of_another_voice(tmp_path):
    packs = {name: np.random.default_rng(index).normal(size=(510, 1, 256)) for index, name in enumerate("ab")}
    np.savez(tmp_path / "voices_x.npz", **packs)
    style = VoiceBank(tmp_path).style(Speaker({"a": 1.0}, "american", "varied", {"b": 1.0}, expansion=2.0), 12)
    mean = (packs["a"].mean((0, 1)) + packs["b"].mean((0, 1))) / 2
    np.testing.assert_allclose(style[:128], (2 * packs["a"][11, 0] - mean)[:128], atol=1e-5)
    np.testing.assert_allclose(style[128:], packs["b"][11, 0, 128:], atol=1e-5)


def test_varied_speakers_differ_in_body_and_pitch():
    varied = [speaker for speaker in SPEAKERS.values() if speaker.kind == "varied"]
    assert len({(speaker.tract, speaker.pitch) for speaker in varied}) == len(varied)
    assert all(0.83 < speaker.tract < 1.2 and 0.6 < speaker.pitch < 1.6 for speaker in varied)
    assert all(sum(speaker.mix.values()) == pytest.approx(1) for speaker in varied)
