"""The talker on vLLM draws the native talker's codes, whatever else is running."""

import random

import numpy as np
import pytest

from engine.protocol.request import FinishReason, SamplingParams, SpeechRequest
from tests.support.talkers import native_talker, prepare, speak, various_requests
from tests.vllm.agreement import assert_agree

REQUESTS = 16


@pytest.fixture(scope="module")
def checkpoint(opened):
    return opened("1b7-custom_voice")


@pytest.fixture(scope="module")
def talker(vllm_talker, checkpoint):
    return vllm_talker(checkpoint)


@pytest.fixture(scope="module")
def utterances(checkpoint):
    return [prepare(request, checkpoint) for request in various_requests(checkpoint, REQUESTS)]


@pytest.fixture(scope="module")
def native(checkpoint, utterances):
    return speak(native_talker(checkpoint, slots=REQUESTS), utterances)


def speaks(talker, checkpoint, **sampling):
    request = SpeechRequest("Hello world", speaker="ryan", sampling=SamplingParams(**sampling))
    return speak(talker, [prepare(request, checkpoint)])[0]


def test_alone(talker, utterances, native, checkpoint):
    spoken = [speak(talker, [utterance])[0] for utterance in utterances[:8]]
    assert_agree(spoken, native[:8], utterances[:8], checkpoint)


def test_all_at_once_more_than_there_are_slots(talker, utterances, native, checkpoint):
    assert_agree(speak(talker, utterances), native, utterances, checkpoint)


def test_joining_and_leaving(talker, utterances, native, checkpoint):
    generator = random.Random(3)
    joins = {number: generator.randint(0, 50) for number in range(REQUESTS)}
    assert_agree(speak(talker, utterances, joins), native, utterances, checkpoint)


def test_cancelling_a_third_leaves_the_others_as_they_were(talker, utterances, native, checkpoint):
    generator = random.Random(5)
    cancels = {number: generator.randint(1, 20) for number in range(0, REQUESTS, 3)}
    assert_agree(speak(talker, utterances, cancels=cancels), native, utterances, checkpoint, except_for=cancels)
    assert talker.free_slots == 8


def test_greedy(talker, checkpoint):
    request = SpeechRequest("Hello world", speaker="ryan", sampling=SamplingParams(greedy=True, max_new_tokens=20))
    utterances = [prepare(request, checkpoint)]
    assert_agree(speak(talker, utterances), speak(native_talker(checkpoint), utterances), utterances, checkpoint)


def test_the_same_seed_speaks_the_same_and_another_does_not(talker, checkpoint):
    [first, again, other] = [speaks(talker, checkpoint, seed=seed, max_new_tokens=6) for seed in (11, 11, 12)]
    assert np.array_equal(first.codes, again.codes)
    assert not np.array_equal(first.codes, other.codes)


@pytest.mark.parametrize("tokens", [1, 2, 5])
def test_max_new_tokens_counts_the_token_that_becomes_no_frame(tokens, talker, checkpoint):
    spoken = speaks(talker, checkpoint, seed=3, max_new_tokens=tokens)
    assert (len(spoken.codes), spoken.finish) == (tokens - 1, FinishReason.LENGTH)


def test_some_utterances_end_by_themselves(native):
    assert FinishReason.STOP in {spoken.finish for spoken in native}
