"""Conversion of vLLM's outputs for the talker."""

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


def test_a_step_without_output_gives_nothing():
    assert step_outputs([]) == []


def test_a_request_aborted_by_vllm_is_a_failure():
    aborted = SimpleNamespace(request_id="a", new_token_ids=[], new_logprobs=None, finished=True, finish_reason="abort")
    with pytest.raises(EngineFailed, match="abort"):
        step_outputs([output("b", [0] * 16), aborted])


def test_an_utterance_keeps_only_a_copy_of_its_own_frame():
    drawn = step_outputs([output("a", list(range(16))), output("b", list(range(100, 116)))])
    utterance = UtteranceState(0, "b", None, None, [], text_open=False)
    utterance.add_frame(drawn[1].codes)
    [kept] = utterance.frames
    assert kept.tolist() == list(range(100, 116))
    assert kept.base is None
