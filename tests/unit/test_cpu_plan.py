"""How the engine uses a CPU: the choice of weights, precision and threads by measurement."""

import logging

import pytest
import torch

from engine.code2wav import precision
from engine.code2wav.precision import choose_dtype, convolution_ms
from engine.config import Code2WavConfig, EngineConfig, TalkerConfig
from engine.cpu import plan as plans
from engine.cpu.plan import choose_plan, measure, runnable_formats
from engine.errors import SetupError
from engine.talker.native.frame_cost import FrameShape, frame_ms
from tests.support.code2wav_decoders import SMALL

CPU = torch.device("cpu")
AUTO = EngineConfig(model="")


@pytest.fixture
def machine(monkeypatch):
    """A machine of two cores, with milliseconds per frame of the formats and of Code2Wav."""
    times = {"code2wav": 20}
    monkeypatch.setattr("engine.system.cores.available_cores", lambda: 2)
    monkeypatch.setattr(plans, "frame_ms", lambda shape, name, threads: times[name])
    monkeypatch.setattr(plans, "code2wav_ms", lambda decoder, dtype, threads: times["code2wav"])
    monkeypatch.setattr(plans, "choose_dtype", lambda config, decoder, device: torch.float32)
    monkeypatch.setattr(plans, "int8_runs", lambda: True)
    monkeypatch.setattr(plans, "int4_runs", lambda: True)
    return times


def plan_of(opened, config=AUTO):
    checkpoint = opened["0b6-custom_voice"]
    return choose_plan(config, checkpoint.model, checkpoint.codec.decoder)


@pytest.mark.parametrize(
    ("exact", "int8", "int4", "selected"),
    [(70, 40, 30, "exact"), (75, 40, 30, "int8"), (115, 75, 50, "int4"), (300, 150, 200, "int8")],
)
def test_auto_is_the_most_accurate_format_that_holds_real_time(exact, int8, int4, selected, machine, opened, caplog):
    machine.update(exact=exact, int8=int8, int4=int4)
    with caplog.at_level(logging.INFO):
        plan = plan_of(opened)
    assert (plan.weights, plan.threads) == (selected, 1)
    assert f"auto selects {selected}" in caplog.text
    assert f"exact {exact} ms" in caplog.text


def test_configured_threads_are_those_of_each_stage(machine, opened):
    machine.update(exact=60)
    assert plan_of(opened, EngineConfig(model="", threads=2)).threads == 2


def test_nothing_is_measured_if_the_format_is_configured(machine, opened):
    config = EngineConfig(model="", threads=1, talker=TalkerConfig(weights="int8"))
    plan = plan_of(opened, config)
    assert (plan.weights, plan.threads, plan.measured) == ("int8", 1, {})


def test_formats_without_kernels_are_not_selected(monkeypatch):
    monkeypatch.setattr(plans, "int8_runs", lambda: False)
    monkeypatch.setattr(plans, "int4_runs", lambda: False)
    assert runnable_formats() == ["exact"]


def test_every_format_can_be_measured(opened):
    checkpoint = opened["0b6-custom_voice"]
    shape = FrameShape.of(checkpoint.model.talker)
    formats = runnable_formats()
    plan = measure(shape, checkpoint.codec.decoder, torch.float32, formats, 1, every=True)
    assert list(plan.measured) == formats
    for name in formats:
        assert 0 < frame_ms(shape, name, 1) < 1000


def test_the_plan_keeps_what_is_configured(machine, opened):
    machine.update(exact=5)
    config = EngineConfig(model="", code2wav=Code2WavConfig(dtype="float16"))
    assert plan_of(opened, config).applied_to(config).code2wav.dtype == "float16"
    assert plan_of(opened).applied_to(AUTO).code2wav.dtype == "float32"


@pytest.mark.parametrize(
    ("float32", "bfloat16", "selected"),
    [(8, 2, torch.float32), (20, 10, torch.bfloat16), (20, 19, torch.float32), (20, 200, torch.float32)],
)
def test_bfloat16_is_selected_if_float32_is_slow_and_bfloat16_faster(float32, bfloat16, selected, monkeypatch):
    times = {torch.float32: float32, torch.bfloat16: bfloat16}
    monkeypatch.setattr(precision, "bfloat16_runs", lambda: True)
    monkeypatch.setattr(precision, "convolution_ms", lambda decoder, dtype, threads: times[dtype])
    assert choose_dtype(Code2WavConfig(), SMALL, CPU) is selected
    assert choose_dtype(Code2WavConfig(dtype="float32"), SMALL, CPU) is torch.float32
    assert choose_dtype(Code2WavConfig(dtype="bfloat16"), SMALL, CPU) is torch.bfloat16


def test_bfloat16_is_refused_where_it_does_not_run(monkeypatch):
    with pytest.raises(SetupError, match=r"code2wav\.dtype: bfloat16 .* the device is cuda"):
        choose_dtype(Code2WavConfig(dtype="bfloat16"), SMALL, torch.device("cuda"))
    monkeypatch.setattr(precision, "bfloat16_runs", lambda: False)
    with pytest.raises(SetupError, match=r"this CPU does not support it: set it to auto"):
        choose_dtype(Code2WavConfig(dtype="bfloat16"), SMALL, CPU)
    assert choose_dtype(Code2WavConfig(), SMALL, CPU) is torch.float32


def test_convolutions_are_measured():
    assert 0 < convolution_ms(SMALL, torch.float32, 1) < 1000
