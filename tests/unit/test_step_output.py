"""What vLLM's outputs are for the talker."""

from types import SimpleNamespace

import numpy as np
import pytest

from engine.errors import EngineFailed
from engine.talker.gpu_step.inputs import UtteranceState
from engine.talker.vllm.step_output import step_outputs


def output(key, codes, finished=False):
    drawn = SimpleNamespace(logprob_token_ids=np.array([codes], np.int32))
    return SimpleNamespace(request_id=key, new_token_ids=[codes[0]], new_logprobs=drawn, finished=finished)


def test_every_request_has_its_own_codes():
    one, two = list(range(16)), list(range(100, 116))
    drawn = step_outputs([output("a", one), output("b", two, finished=True)])
    assert [(each.key, each.codes.tolist(), each.last) for each in drawn] == [("a", one, False), ("b", two, True)]
    assert all(each.codes.dtype == np.int16 for each in drawn)


def test_a_step_that_drew_nothing_is_nothing():
    assert step_outputs([]) == []


def test_a_request_that_vllm_gave_up_is_a_failure():
    given_up = SimpleNamespace(
        request_id="a", new_token_ids=[], new_logprobs=None, finished=True, finish_reason="abort"
    )
    with pytest.raises(EngineFailed, match="abort"):
        step_outputs([output("b", [0] * 16), given_up])


def test_what_an_utterance_keeps_of_a_step_is_its_own_frame_alone():
    drawn = step_outputs([output("a", list(range(16))), output("b", list(range(100, 116)))])
    utterance = UtteranceState(0, "b", None, None, [], text_open=False)
    utterance.add_frame(drawn[1].codes)
    [kept] = utterance.frames
    assert kept.tolist() == list(range(100, 116))
    assert kept.base is None
