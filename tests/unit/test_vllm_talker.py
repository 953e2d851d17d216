"""Who makes a frame and who stands, around a core that numbers each request's frames and is a step behind."""

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


class Core:
    """Every step each request that does not stand draws its next number; ``last``: the one with which it ends."""

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
    return Core()


@pytest.fixture
def talker(core):
    return VllmTalker(core, TalkerConfig(slots=3), eos=EOS)


def frames(outputs):
    return {each.stream: int(each.codes[0]) for each in outputs if each.codes is not None}


def run(talker, steps, held=frozenset()):
    """stream -> the numbers handed out in so many steps."""
    heard = {}
    for _ in range(steps):
        for stream, number in frames(talker.step(held)).items():
            heard.setdefault(stream, []).append(number)
    return heard


def test_a_held_stream_stands_while_others_go_on_and_then_misses_nothing(talker):
    for stream in (1, 2):
        talker.admit(stream, prompt(3), SAMPLING)
    assert run(talker, 4) == {1: [0, 1, 2], 2: [0, 1, 2]}
    assert run(talker, 5, held=frozenset({1})) == {2: [3, 4, 5, 6, 7]}
    heard = run(talker, 6)
    assert heard[1] == list(range(3, 3 + len(heard[1])))
    assert len(heard[1]) >= 5
    assert heard[2] == list(range(8, 14))


def test_when_all_are_held_there_is_nothing_to_do(talker):
    talker.admit(1, prompt(3), SAMPLING)
    run(talker, 3)
    run(talker, 2, held=frozenset({1}))
    assert not talker.runnable(frozenset({1}))
    assert talker.runnable(frozenset())


def test_an_utterance_stands_until_the_text_beside_its_next_frame_is_known(talker):
    talker.admit(1, prompt(2), SAMPLING, text_open=True)
    talker.admit(2, prompt(2), SAMPLING)
    assert run(talker, 8) == {1: [0, 1, 2], 2: [0, 1, 2, 3, 4, 5, 6]}
    talker.append_text(1, [5], last=False)
    assert run(talker, 4)[1] == [3]
    talker.append_text(1, [], last=True)
    assert run(talker, 4)[1] == [4, 5, 6]


def test_an_end_follows_the_last_frame_also_of_a_stream_that_was_held(core, talker):
    core.last = 2
    talker.admit(1, prompt(3), SAMPLING)
    run(talker, 3)
    run(talker, 3, held=frozenset({1}))
    outputs = [output for _ in range(3) for output in talker.step(frozenset())]
    assert outputs[-1].finish is FinishReason.STOP
    assert talker.free_slots == 3
    assert not talker.runnable(frozenset())


def test_what_is_cancelled_while_it_is_held_leaves_nothing(core, talker):
    talker.admit(1, prompt(3), SAMPLING)
    run(talker, 2)
    run(talker, 2, held=frozenset({1}))
    talker.cancel(1)
    assert (talker.free_slots, core.requests) == (3, {})
    assert not talker.runnable(frozenset())
    talker.admit(1, prompt(3), SAMPLING)
    assert run(talker, 3) == {1: [0, 1]}
