"""The shipped checkpoint still speaks as it did after training.

Sampled codes may differ on another CPU, once a rounding error decides a draw. So the models are tested with recorded
codes, and newly sampled speech is compared with what any reading of the sentence sounds like.
"""

import numpy as np
import pytest

from engine.protocol.request import SAMPLES_PER_FRAME, FinishReason, Voice
from tests.parity import pocket_speech
from tests.parity.pocket_speech import CLONES, Pocket, blocks, context_of, measure, requests

with np.load(pocket_speech.EXPECTED) as file:
    EXPECTED = dict(file)
SPEAKERS = tuple(EXPECTED["speakers"].tolist())
VOICE = Voice(EXPECTED["reference/embedding"], EXPECTED["reference/codes"].astype(np.int64))
REQUESTS = requests(SPEAKERS, VOICE)
each_case = pytest.mark.parametrize("name", (*SPEAKERS, *CLONES))


@pytest.fixture(scope="module")
def pocket():
    return Pocket(pocket_speech.CHECKPOINT)


@pytest.fixture(scope="module")
def decoded(pocket):
    """The samples of the recorded codes."""
    return {name: pocket.samples(EXPECTED[f"{name}/codes"], context_of(asked)) for name, asked in REQUESTS.items()}


@pytest.fixture(scope="module")
def sampled(pocket):
    return pocket.speak(REQUESTS)


def test_the_checkpoint_is_trained_and_has_the_expected_speakers(pocket):
    assert pocket.checkpoint.model.trained
    assert pocket.speakers == SPEAKERS


@each_case
def test_recorded_codes_decode_to_the_expected_spectra(name, decoded):
    assert len(decoded[name]) == len(EXPECTED[f"{name}/codes"]) * SAMPLES_PER_FRAME
    distance = np.abs(blocks(decoded[name]) - EXPECTED[f"{name}/blocks"]).mean()
    assert distance < 0.02


@each_case
def test_recorded_codes_have_the_expected_likelihood(name, pocket):
    surprise = pocket.surprise(REQUESTS[name], EXPECTED[f"{name}/codes"])
    assert surprise == pytest.approx(EXPECTED[f"{name}/surprise"], rel=0.02)


@each_case
def test_sampled_speech_resembles_the_expected_speech(name, pocket, sampled, decoded):
    assert sampled[name].finish is FinishReason.STOP
    samples = pocket.samples(sampled[name].codes.astype(np.int16), context_of(REQUESTS[name]))
    assert np.isfinite(samples).all()
    figures, expected = measure(samples), measure(decoded[name])
    assert figures.silence < 0.3
    assert figures.seconds == pytest.approx(expected.seconds, rel=0.35)
    assert figures.loudness == pytest.approx(expected.loudness, abs=4)
    distance = np.abs(figures.spectrum - expected.spectrum).mean()
    assert distance < 0.8


def test_a_recording_is_encoded_as_expected(pocket):
    voice = pocket.voice(pocket.samples(EXPECTED["reference/spoken"]))
    norms = np.linalg.norm(voice.embedding) * np.linalg.norm(VOICE.embedding)
    assert voice.embedding @ VOICE.embedding > 0.999 * norms
    assert (voice.codes == VOICE.codes).mean() > 0.95
