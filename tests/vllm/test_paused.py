"""Utterances paused by back-pressure or missing text keep their state and do not block others."""

from copy import deepcopy

import numpy as np
import pytest

from engine.protocol.request import SamplingParams, SpeechRequest
from engine.talker.base import FRAMES_IN_FLIGHT
from tests.support.talkers import native_talker, outputs, prepare, speak
from tests.vllm.agreement import assert_codes_agree

TEXT = "Hello world, this is a test of the speech server."


@pytest.fixture(scope="module")
def checkpoint(opened):
    return opened("0b6-custom_voice")


@pytest.fixture(scope="module")
def talker(vllm_talker, checkpoint):
    return vllm_talker(checkpoint)


@pytest.fixture
def utterance(checkpoint):
    """Function: seed -> a prepared utterance in the streaming layout. With seeds 11 to 18, audio outlasts the text."""

    def prepared(seed):
        sampling = SamplingParams(seed=seed, max_new_tokens=24)
        request = SpeechRequest(TEXT, speaker="vivian", text_layout="streaming", sampling=sampling)
        return prepare(request, checkpoint)

    return prepared


@pytest.fixture(scope="module")
def assert_same_as_native(checkpoint):
    """Function: assert that the native talker gives the same codes for an utterance."""
    one = native_talker(checkpoint)

    def assert_same(codes, utterance):
        [expected] = speak(one, [utterance])
        assert_codes_agree(np.array(codes), expected.codes, utterance, checkpoint)

    return assert_same


class Runner:
    """Steps a talker and collects the codes of each stream."""

    def __init__(self, talker):
        self.talker = talker
        self.codes = {}

    def step(self, blocked=frozenset()):
        step = outputs(self.talker.step(blocked))
        for output in step:
            if output.codes is not None:
                self.codes.setdefault(output.stream, []).append(output.codes)
        return step

    def until_blocked(self, blocked=frozenset()):
        while self.talker.runnable(blocked):
            self.step(blocked)


def test_a_blocked_stream_pauses_and_resumes_without_a_gap(talker, utterance, assert_same_as_native):
    prepared = utterance(11)
    talker.admit(0, *prepared)
    runner = Runner(talker)
    while talker.runnable(frozenset()):
        if any(output.codes is not None for output in runner.step()):
            before = len(runner.codes[0])
            runner.until_blocked(frozenset({0}))
            assert len(runner.codes[0]) <= before + FRAMES_IN_FLIGHT
    assert_same_as_native(runner.codes[0], prepared)


def test_other_streams_continue_beside_a_blocked_one(talker, utterance, assert_same_as_native):
    blocked_utterance, other_utterance = utterance(12), utterance(13)
    talker.admit(0, *blocked_utterance)
    talker.admit(1, *other_utterance)
    runner = Runner(talker)
    while not runner.codes.get(0):
        runner.step()
    frames_before = len(runner.codes[0])
    runner.until_blocked(frozenset({0}))
    assert_same_as_native(runner.codes[1], other_utterance)
    assert len(runner.codes[0]) <= frames_before + FRAMES_IN_FLIGHT
    assert talker.free_slots == 7
    runner.until_blocked()
    assert_same_as_native(runner.codes[0], blocked_utterance)


def test_a_resumed_stream_gives_one_frame_per_step(talker, utterance):
    talker.admit(0, *utterance(14))
    runner = Runner(talker)
    while not runner.codes.get(0):
        runner.step()
    while talker.runnable(frozenset()):
        runner.until_blocked(frozenset({0}))
        frames = [output for output in runner.step() if output.codes is not None]
        assert len(frames) <= 1


def test_live_text_gives_the_codes_of_the_complete_text(talker, utterance, assert_same_as_native):
    prompt, sampling = utterance(15)
    whole = deepcopy((prompt, sampling))
    rest, prompt.trailing[:] = list(prompt.trailing), []
    talker.admit(0, prompt, sampling, text_open=True)
    runner = Runner(talker)
    while rest or talker.runnable(frozenset()):
        if not talker.runnable(frozenset()):
            talker.append_text(0, [rest.pop(0)], last=not rest)
        runner.step()
    assert_same_as_native(runner.codes[0], whole)


def test_a_live_stream_pauses_only_when_its_text_runs_out(talker, utterance, assert_same_as_native):
    (prompt, sampling), other = utterance(16), utterance(17)
    whole = deepcopy((prompt, sampling))
    first, rest = prompt.trailing[:6], prompt.trailing[6:]
    prompt.trailing[:] = first
    talker.admit(0, prompt, sampling, text_open=True)
    talker.admit(1, *other)
    runner = Runner(talker)
    while len(runner.codes.get(0, [])) < 3:
        runner.step()
    talker.append_text(0, rest[:3], last=False)
    runner.until_blocked()
    assert len(runner.codes[0]) == 1 + 6 + 3
    assert_same_as_native(runner.codes[1], other)
    talker.append_text(0, rest[3:], last=True)
    runner.until_blocked()
    assert_same_as_native(runner.codes[0], whole)


def test_cancelling_with_open_text_frees_the_slot(talker, utterance):
    prompt, sampling = utterance(18)
    prompt.trailing[:] = prompt.trailing[:2]
    talker.admit(0, prompt, sampling, text_open=True)
    Runner(talker).until_blocked()
    talker.cancel(0)
    talker.append_text(0, [1], last=True)
    assert talker.free_slots == 8
    assert not talker.runnable(frozenset())
