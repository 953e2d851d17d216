"""Talkers with quantized weights: the same codes in any batch, and the choice of a format at startup."""

import random
from dataclasses import replace

import pytest
import torch

from engine.checkpoint.architecture import Transformer
from engine.config import EngineConfig, TalkerConfig
from engine.errors import SetupError
from engine.protocol.request import SamplingParams, SpeechRequest
from engine.talker import loading
from engine.talker.loading import warm_up
from engine.talker.native import weight_formats
from engine.talker.native.frame_cost import FrameShape, frame_seconds
from engine.talker.native.weight_formats import choose_format, measure_formats
from engine.talker.requests import resolve
from tests.support.talkers import assert_same, bit_for_bit, native_talker, prepare, speak, various_requests

REQUESTS = 5
CPU = torch.device("cpu")
AUTO = EngineConfig(model="")
LAYERS = Transformer(hidden=64, intermediate=96, layers=2, heads=2, kv_heads=1, head_dim=32, rope_theta=1e6, eps=1e-6)
SHAPE = FrameShape(LAYERS, LAYERS, vocab=32)


@pytest.fixture(scope="module", params=["int8", "int4"])
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


@pytest.fixture
def frame_ms(monkeypatch):
    """Milliseconds per frame that the measurement finds, by format. Every format has kernels."""
    times = {}
    monkeypatch.setattr(weight_formats, "frame_seconds", lambda shape, name: times[name] / 1000)
    monkeypatch.setattr(weight_formats, "int8_runs", lambda: True)
    monkeypatch.setattr(weight_formats, "int4_runs", lambda: True)
    return times


@pytest.mark.parametrize(
    ("exact", "int8", "int4", "selected"),
    [(70, 40, 30, "exact"), (75, 40, 30, "int8"), (115, 75, 50, "int4"), (300, 150, 200, "int8")],
)
def test_auto_is_the_most_accurate_format_that_holds_real_time(exact, int8, int4, selected, frame_ms, opened, caplog):
    frame_ms.update(exact=exact, int8=int8, int4=int4)
    shape = opened["0b6-custom_voice"].model.talker
    with caplog.at_level("INFO"):
        assert choose_format(AUTO, shape, CPU) == selected
    assert f"auto selects {selected}" in caplog.text
    assert f"exact {exact} ms" in caplog.text


def test_formats_without_kernels_are_not_selected(frame_ms, monkeypatch):
    frame_ms.update(exact=300)
    monkeypatch.setattr(weight_formats, "int8_runs", lambda: False)
    monkeypatch.setattr(weight_formats, "int4_runs", lambda: False)
    assert measure_formats(SHAPE, every=True).frame_ms == {"exact": 300}


@pytest.mark.parametrize("weights", ["exact", "int8", "int4"])
def test_a_configured_format_is_not_measured(weights, frame_ms, opened):
    config = EngineConfig(model="", talker=TalkerConfig(weights=weights))
    assert choose_format(config, opened["0b6-custom_voice"].model.talker, CPU) == weights


def test_quantized_weights_are_refused_on_a_gpu_and_in_bfloat16(opened):
    shape = opened["0b6-custom_voice"].model.talker
    config = EngineConfig(model="", talker=TalkerConfig(weights="int4"))
    with pytest.raises(SetupError, match=r"talker.weights: int4 needs a CPU.*device is cuda.*auto or exact"):
        choose_format(config, shape, torch.device("cuda"))
    with pytest.raises(SetupError, match=r"engine.dtype is bfloat16"):
        choose_format(config.model_copy(update={"dtype": "bfloat16"}), shape, CPU)
    assert choose_format(AUTO, shape, torch.device("cuda")) == "exact"


@pytest.mark.parametrize("weights", ["exact", "int8", "int4"])
def test_every_format_is_measured(weights):
    assert 0 < frame_seconds(SHAPE, weights) < 1


def test_the_expected_real_time_factor_is_that_of_the_fastest_step_with_a_frame(monkeypatch, opened):
    checkpoint = opened["0b6-custom_voice"]
    talker = native_talker(checkpoint)
    step, clock = talker.step, [0.0]

    def timed_step(paused):
        outputs = step(paused)
        made_a_frame = any(output.codes is not None for output in outputs)
        clock[0] += 0.04 if made_a_frame else 0.001
        return outputs

    monkeypatch.setattr(talker, "step", timed_step)
    monkeypatch.setattr(loading.time, "thread_time", lambda: clock[0])
    sampling = resolve(SamplingParams(seed=1), checkpoint.generation)
    assert warm_up(talker, text_pad=checkpoint.model.text_ids.tts_pad, sampling=sampling) == pytest.approx(0.5)
