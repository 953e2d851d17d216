"""Talkers in compiled kernels: the same codes in any batch, and formats that cannot run."""

import random
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from engine.config import EngineConfig, TalkerConfig
from engine.errors import SetupError
from engine.protocol.request import SamplingParams, SpeechRequest
from engine.talker import loading
from engine.talker.loading import warm_up
from engine.talker.native.weight_formats import configured_format
from engine.talker.requests import resolve
from tests.support.talkers import (
    assert_same,
    bit_for_bit,
    native_talker,
    prepare,
    speak,
    various_requests,
)

REQUESTS = 5
CPU = torch.device("cpu")
AUTO = EngineConfig(model="")


@pytest.fixture(scope="module", params=["exact", "int8", "int4"])
def talker(request, opened):
    return native_talker(opened["1b7-custom_voice"], slots=REQUESTS, prefill_chunk=16, weights=request.param)


@pytest.fixture(scope="module")
def utterances(opened):
    checkpoint = opened["1b7-custom_voice"]
    requests = various_requests(checkpoint, REQUESTS)
    return [prepare(replace(each, sampling=replace(each.sampling, max_new_tokens=12)), checkpoint) for each in requests]


@bit_for_bit
def test_the_codes_are_the_same_alone_in_a_batch_and_beside_cancelled_requests(talker, utterances):
    alone = [speak(talker, [utterance])[0] for utterance in utterances]
    assert_same(speak(talker, utterances), alone)
    generator = random.Random(3)
    joins = {number: generator.randint(0, 8) for number in range(REQUESTS)}
    cancels = {number: generator.randint(1, 6) for number in range(0, REQUESTS, 3)}
    assert_same(speak(talker, utterances, joins, cancels), alone, except_for=cancels)


@pytest.mark.parametrize(("weights", "error"), [("exact", 0), ("int8", 0.05), ("int4", 0.4)])
def test_quantized_logits_are_near_the_exact_ones(weights, error, opened):
    exact, logits = (first_logits(opened["1b7-custom_voice"], each) for each in ("exact", weights))
    assert (logits - exact).norm() <= error * exact.norm()


def first_logits(checkpoint, weights):
    """Return the logits of codebook 0 of an utterance's first frame."""
    talker = native_talker(checkpoint, weights=weights)
    model, recorded = talker._model, []
    head = model.logits
    model.logits = lambda hidden: recorded.append(head(hidden)) or recorded[-1].clone()
    sampling = SamplingParams(seed=1, max_new_tokens=2)
    speak(talker, [prepare(SpeechRequest("Hello world", speaker="ryan", sampling=sampling), checkpoint)])
    return recorded[0]


@pytest.mark.parametrize("weights", ["exact", "int8", "int4"])
def test_a_configured_format_is_used(weights):
    config = EngineConfig(model="", talker=TalkerConfig(weights=weights))
    assert configured_format(config, CPU) == weights


def test_auto_is_measured_on_a_cpu_only():
    assert configured_format(AUTO, CPU) is None
    assert configured_format(AUTO, torch.device("cuda")) == "exact"
    assert configured_format(AUTO.model_copy(update={"dtype": "bfloat16"}), CPU) == "exact"


def test_quantized_weights_are_refused_on_a_gpu_and_in_bfloat16():
    config = EngineConfig(model="", talker=TalkerConfig(weights="int4"))
    with pytest.raises(SetupError, match=r"talker.weights: int4 needs a CPU.*device is cuda.*auto or exact"):
        configured_format(config, torch.device("cuda"))
    with pytest.raises(SetupError, match=r"engine.dtype is bfloat16"):
        configured_format(config.model_copy(update={"dtype": "bfloat16"}), CPU)


def test_the_expected_real_time_factor_is_that_of_the_fastest_step_with_a_frame(monkeypatch, opened):
    checkpoint = opened["0b6-custom_voice"]
    talker = native_talker(checkpoint)
    step, clock = talker.step, [0.0]

    def timed_step(paused):
        output = step(paused)
        clock[0] += 0.04 if output.streams else 0.001
        return output

    monkeypatch.setattr(talker, "step", timed_step)
    monkeypatch.setattr(loading.time, "thread_time", lambda: clock[0])
    sampling = resolve(SamplingParams(seed=1), checkpoint.generation)
    assert warm_up(talker, text_pad=checkpoint.model.text_ids.tts_pad, sampling=sampling) == pytest.approx(0.5)


def test_modules_load_without_numba():
    code = "import sys, engine.worker, engine.talker.loading, engine.cpu.plan; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
