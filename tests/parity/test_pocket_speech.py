"""The checkpoint that ships still speaks as it did when it was trained.

Sampled codes may differ on another CPU, from the first rounding error that meets a draw's edge on. So the models are
held to codes that were drawn once, and what is drawn here is held to what any reading of the sentence sounds like.
"""

import numpy as np
import pytest

from engine.protocol.request import SAMPLES_PER_FRAME, FinishReason, Voice
from tests.parity import pocket_speech
from tests.parity.pocket_speech import CLONES, Pocket, blocks, context_of, hear, requests

with np.load(pocket_speech.EXPECTED) as file:
    EXPECTED = dict(file)
SPEAKERS = tuple(EXPECTED["speakers"].tolist())
VOICE = Voice(EXPECTED["reference/embedding"], EXPECTED["reference/codes"].astype(np.int64))
ASKED = requests(SPEAKERS, VOICE)
each_case = pytest.mark.parametrize("name", (*SPEAKERS, *CLONES))


@pytest.fixture(scope="module")
def pocket():
    return Pocket(pocket_speech.CHECKPOINT)


@pytest.fixture(scope="module")
def remade(pocket):
    """The samples of the codes that were drawn once."""
    return {name: pocket.samples(EXPECTED[f"{name}/codes"], context_of(asked)) for name, asked in ASKED.items()}


@pytest.fixture(scope="module")
def spoken(pocket):
    return pocket.speak(ASKED)


def test_it_is_trained_and_has_these_voices(pocket):
    assert pocket.checkpoint.model.trained
    assert pocket.speakers == SPEAKERS


@each_case
def test_codes_sound_as_they_did(name, remade):
    assert len(remade[name]) == len(EXPECTED[f"{name}/codes"]) * SAMPLES_PER_FRAME
    distance = np.abs(blocks(remade[name]) - EXPECTED[f"{name}/blocks"]).mean()
    assert distance < 0.02


@each_case
def test_codes_are_as_likely_as_they_were(name, pocket):
    surprise = pocket.surprise(ASKED[name], EXPECTED[f"{name}/codes"])
    assert surprise == pytest.approx(EXPECTED[f"{name}/surprise"], rel=0.02)


@each_case
def test_a_sentence_is_said(name, pocket, spoken, remade):
    assert spoken[name].finish is FinishReason.STOP
    samples = pocket.samples(spoken[name].codes.astype(np.int16), context_of(ASKED[name]))
    assert np.isfinite(samples).all()
    heard, expected = hear(samples), hear(remade[name])
    assert heard.silence < 0.3
    assert heard.seconds == pytest.approx(expected.seconds, rel=0.35)
    assert heard.loudness == pytest.approx(expected.loudness, abs=4)
    distance = np.abs(heard.spectrum - expected.spectrum).mean()
    assert distance < 0.8


def test_a_recording_is_heard_as_it_was(pocket):
    voice = pocket.voice(pocket.samples(EXPECTED["reference/spoken"]))
    norms = np.linalg.norm(voice.embedding) * np.linalg.norm(VOICE.embedding)
    assert voice.embedding @ VOICE.embedding > 0.999 * norms
    assert (voice.codes == VOICE.codes).mean() > 0.95
