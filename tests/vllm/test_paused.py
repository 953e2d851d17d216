"""Utterances that wait for their listener or for their text keep what they have, and hold nobody else up."""

from copy import deepcopy

import numpy as np
import pytest

from engine.protocol.request import SamplingParams, SpeechRequest
from tests.support.talkers import native_talker, prepare, speak
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
    """Function: seed -> a prepared utterance in the streaming layout. From 11 to 18 they outlast their text."""

    def prepared(seed):
        sampling = SamplingParams(seed=seed, max_new_tokens=24)
        request = SpeechRequest(TEXT, speaker="vivian", text_layout="streaming", sampling=sampling)
        return prepare(request, checkpoint)

    return prepared


@pytest.fixture(scope="module")
def alike(checkpoint):
    """Function: codes, utterance -> asserts that the native talker says the same."""
    one = native_talker(checkpoint)

    def assert_alike(codes, utterance):
        [wanted] = speak(one, [utterance])
        assert_codes_agree(np.array(codes), wanted.codes, utterance, checkpoint)

    return assert_alike


class Listener:
    """Steps a talker and keeps each stream's codes."""

    def __init__(self, talker):
        self.talker = talker
        self.codes = {}

    def step(self, held=frozenset()):
        outputs = self.talker.step(held)
        for output in outputs:
            if output.codes is not None:
                self.codes.setdefault(output.stream, []).append(output.codes)
        return outputs

    def until_still(self, held=frozenset()):
        while self.talker.runnable(held):
            self.step(held)


def test_a_held_stream_stands_still_and_goes_on_as_if_nothing_had_been(talker, utterance, alike):
    spoken = utterance(11)
    talker.admit(0, *spoken)
    listener = Listener(talker)
    while talker.runnable(frozenset()):
        if any(output.codes is not None for output in listener.step()):
            before = len(listener.codes[0])
            listener.until_still(frozenset({0}))
            assert len(listener.codes[0]) == before
    alike(listener.codes[0], spoken)


def test_beside_a_held_stream_others_speak_on(talker, utterance, alike):
    held, free = utterance(12), utterance(13)
    talker.admit(0, *held)
    talker.admit(1, *free)
    listener = Listener(talker)
    while not listener.codes.get(0):
        listener.step()
    heard = len(listener.codes[0])
    listener.until_still(frozenset({0}))
    alike(listener.codes[1], free)
    assert len(listener.codes[0]) == heard
    assert talker.free_slots == 7
    listener.until_still()
    alike(listener.codes[0], held)


def test_a_stream_that_goes_on_gives_one_frame_a_step(talker, utterance):
    talker.admit(0, *utterance(14))
    listener = Listener(talker)
    while not listener.codes.get(0):
        listener.step()
    while talker.runnable(frozenset()):
        listener.until_still(frozenset({0}))
        frames = [output for output in listener.step() if output.codes is not None]
        assert len(frames) <= 1


def test_text_that_arrives_token_by_token_speaks_as_the_whole_text(talker, utterance, alike):
    prompt, sampling = utterance(15)
    whole = deepcopy((prompt, sampling))
    rest, prompt.trailing[:] = list(prompt.trailing), []
    talker.admit(0, prompt, sampling, text_open=True)
    listener = Listener(talker)
    while rest or talker.runnable(frozenset()):
        if not talker.runnable(frozenset()):
            talker.append_text(0, [rest.pop(0)], last=not rest)
        listener.step()
    alike(listener.codes[0], whole)


def test_text_that_comes_while_it_is_spoken_is_waited_for_only_when_it_runs_out(talker, utterance, alike):
    (prompt, sampling), other = utterance(16), utterance(17)
    whole = deepcopy((prompt, sampling))
    first, rest = prompt.trailing[:6], prompt.trailing[6:]
    prompt.trailing[:] = first
    talker.admit(0, prompt, sampling, text_open=True)
    talker.admit(1, *other)
    listener = Listener(talker)
    while len(listener.codes.get(0, [])) < 3:
        listener.step()
    talker.append_text(0, rest[:3], last=False)
    listener.until_still()
    assert len(listener.codes[0]) == 1 + 6 + 3
    alike(listener.codes[1], other)
    talker.append_text(0, rest[3:], last=True)
    listener.until_still()
    alike(listener.codes[0], whole)


def test_an_utterance_cancelled_while_its_text_is_open_leaves_its_slot(talker, utterance):
    prompt, sampling = utterance(18)
    prompt.trailing[:] = prompt.trailing[:2]
    talker.admit(0, prompt, sampling, text_open=True)
    Listener(talker).until_still()
    talker.cancel(0)
    talker.append_text(0, [1], last=True)
    assert talker.free_slots == 8
    assert not talker.runnable(frozenset())
