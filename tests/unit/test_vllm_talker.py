"""The vLLM talker decides which streams are paused; the core is a stub that runs one step behind."""

from types import SimpleNamespace

import numpy as np
import pytest

from engine.config import TalkerConfig
from engine.prompt.builder import NO_TOKEN, Prompt
from engine.protocol.request import FinishReason
from engine.talker.base import Sampling
from engine.talker.sampling_params import CodebookParams
from engine.talker.vllm.step_output import StepOutput
from engine.talker.vllm.talker import VllmTalker

EOS = 9_999
SAMPLING = Sampling(CodebookParams(temperature=0.0), CodebookParams(temperature=0.0), 1000, 1)


class StubCore:
    """Each step gives every request that is not paused its next number; ``last``: the number that ends a request."""

    def __init__(self, last=100):
        self.requests, self.outputs, self.last = {}, [], last

    def set_paused_keys(self, paused_keys):
        self.paused_keys = paused_keys

    def add(self, utterance):
        length = len(utterance.prompt.text)
        request = SimpleNamespace(num_prompt_tokens=length, num_computed_tokens=length - 1, key=utterance.key)
        self.requests[utterance.key] = request
        return request

    def abort(self, key):
        del self.requests[key]
        self.outputs = [each for each in self.outputs if each.key != key]

    @property
    def in_flight(self):
        return bool(self.outputs)

    def step(self):
        paused, (outputs, self.outputs) = self.paused_keys(), (self.outputs, [])
        for request in list(self.requests.values()):
            if request.key in paused:
                continue
            request.num_computed_tokens += 1
            frame = request.num_computed_tokens - request.num_prompt_tokens
            ends = frame == self.last
            self.outputs.append(StepOutput(request.key, np.full(16, EOS if ends else frame, np.int16), ends))
            if ends:
                del self.requests[request.key]
        return outputs, bool(self.outputs)


def prompt(text):
    ids = np.full(4, 7, np.int64)
    return Prompt(ids, ids, None, NO_TOKEN, None, NO_TOKEN, list(range(text)), 4)


@pytest.fixture
def core():
    return StubCore()


@pytest.fixture
def talker(core):
    return VllmTalker(core, TalkerConfig(slots=3), eos=EOS)


def frames(outputs):
    return {each.stream: int(each.codes[0]) for each in outputs if each.codes is not None}


def run(talker, steps, blocked=frozenset()):
    """stream -> the numbers returned in ``steps`` steps."""
    numbers = {}
    for _ in range(steps):
        for stream, number in frames(talker.step(blocked)).items():
            numbers.setdefault(stream, []).append(number)
    return numbers


def test_a_blocked_stream_pauses_while_others_continue_and_misses_nothing(talker):
    for stream in (1, 2):
        talker.admit(stream, prompt(3), SAMPLING)
    assert run(talker, 4) == {1: [0, 1, 2], 2: [0, 1, 2]}
    assert run(talker, 5, blocked=frozenset({1})) == {2: [3, 4, 5, 6, 7]}
    numbers = run(talker, 6)
    assert numbers[1] == list(range(3, 3 + len(numbers[1])))
    assert len(numbers[1]) >= 5
    assert numbers[2] == list(range(8, 14))


def test_if_all_streams_are_blocked_there_is_nothing_to_run(talker):
    talker.admit(1, prompt(3), SAMPLING)
    run(talker, 3)
    run(talker, 2, blocked=frozenset({1}))
    assert not talker.runnable(frozenset({1}))
    assert talker.runnable(frozenset())


def test_an_utterance_pauses_until_the_text_of_its_next_frame_is_known(talker):
    talker.admit(1, prompt(2), SAMPLING, text_open=True)
    talker.admit(2, prompt(2), SAMPLING)
    assert run(talker, 8) == {1: [0, 1, 2], 2: [0, 1, 2, 3, 4, 5, 6]}
    talker.append_text(1, [5], last=False)
    assert run(talker, 4)[1] == [3]
    talker.append_text(1, [], last=True)
    assert run(talker, 4)[1] == [4, 5, 6]


def test_the_end_follows_the_last_frame_even_of_a_blocked_stream(core, talker):
    core.last = 2
    talker.admit(1, prompt(3), SAMPLING)
    run(talker, 3)
    run(talker, 3, blocked=frozenset({1}))
    outputs = [output for _ in range(3) for output in talker.step(frozenset())]
    assert outputs[-1].finish is FinishReason.STOP
    assert talker.free_slots == 3
    assert not talker.runnable(frozenset())


def test_cancelling_a_blocked_stream_leaves_nothing(core, talker):
    talker.admit(1, prompt(3), SAMPLING)
    run(talker, 2)
    run(talker, 2, blocked=frozenset({1}))
    talker.cancel(1)
    assert (talker.free_slots, core.requests) == (3, {})
    assert not talker.runnable(frozenset())
    talker.admit(1, prompt(3), SAMPLING)
    assert run(talker, 3) == {1: [0, 1]}
