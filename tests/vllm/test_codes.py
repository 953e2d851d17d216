"""The vLLM talker gives the codes of the native talker, whatever else is running."""

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


def run_one(talker, checkpoint, **sampling):
    request = SpeechRequest("Hello world", speaker="ryan", sampling=SamplingParams(**sampling))
    return speak(talker, [prepare(request, checkpoint)])[0]


def test_single_requests(talker, utterances, native, checkpoint):
    spoken = [speak(talker, [utterance])[0] for utterance in utterances[:8]]
    assert_agree(spoken, native[:8], utterances[:8], checkpoint)


def test_more_concurrent_requests_than_slots(talker, utterances, native, checkpoint):
    assert_agree(speak(talker, utterances), native, utterances, checkpoint)


def test_requests_that_join_and_leave(talker, utterances, native, checkpoint):
    generator = random.Random(3)
    joins = {number: generator.randint(0, 50) for number in range(REQUESTS)}
    assert_agree(speak(talker, utterances, joins), native, utterances, checkpoint)


def test_cancelling_a_third_does_not_change_the_others(talker, utterances, native, checkpoint):
    generator = random.Random(5)
    cancels = {number: generator.randint(1, 20) for number in range(0, REQUESTS, 3)}
    assert_agree(speak(talker, utterances, cancels=cancels), native, utterances, checkpoint, except_for=cancels)
    assert talker.free_slots == 8


def test_greedy_sampling(talker, checkpoint):
    request = SpeechRequest("Hello world", speaker="ryan", sampling=SamplingParams(greedy=True, max_new_tokens=20))
    utterances = [prepare(request, checkpoint)]
    assert_agree(speak(talker, utterances), speak(native_talker(checkpoint), utterances), utterances, checkpoint)


def test_the_seed_determines_the_codes(talker, checkpoint):
    [first, repeated, other] = [run_one(talker, checkpoint, seed=seed, max_new_tokens=6) for seed in (11, 11, 12)]
    assert np.array_equal(first.codes, repeated.codes)
    assert not np.array_equal(first.codes, other.codes)


@pytest.mark.parametrize("tokens", [1, 2, 5])
def test_max_new_tokens_includes_the_token_without_a_frame(tokens, talker, checkpoint):
    spoken = run_one(talker, checkpoint, seed=3, max_new_tokens=tokens)
    assert (len(spoken.codes), spoken.finish) == (tokens - 1, FinishReason.LENGTH)


def test_some_utterances_end_before_the_limit(native):
    assert FinishReason.STOP in {spoken.finish for spoken in native}
