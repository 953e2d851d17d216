"""How the engine uses a CPU: the choice of weights, precision and threads by measurement."""

import logging
import threading
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch

from engine.code2wav import precision
from engine.code2wav.loading import load_decoder
from engine.code2wav.precision import choose_dtype, convolution_ms
from engine.config import Code2WavConfig, EngineConfig, TalkerConfig
from engine.cpu import plan as plans
from engine.cpu.plan import ThreadCounts, choose_plan, measure
from engine.device.compute_thread import ComputeThread
from engine.device.timing import Timing
from engine.device.timing_cache import cached_on_disk
from engine.errors import SetupError
from engine.protocol.request import WeightFormat
from engine.talker.in_compute_thread import ComputeThreadTalker
from engine.talker.native.frame_cost import FrameShape, frame_ms
from tests.support.code2wav_decoders import SMALL
from tests.support.talkers import assert_same, native_talker, prepare, speak, various_requests

CPU = torch.device("cpu")
LARGE = replace(SMALL, decoder_dim=1536, latent=1024)
AUTO = EngineConfig(model="")


@pytest.fixture
def machine(monkeypatch):
    """A machine of two cores, with milliseconds per frame of the formats and of Code2Wav, by number of threads."""
    times = {"code2wav": (20, 11)}
    monkeypatch.setattr(plans, "available_cores", lambda: 2)
    monkeypatch.setattr("engine.system.cores.available_cores", lambda: 2)
    monkeypatch.setattr(plans, "frame_ms", lambda shape, name, threads: times[name][threads - 1])
    monkeypatch.setattr(plans, "code2wav_ms", lambda decoder, dtype, threads: times["code2wav"][threads - 1])
    monkeypatch.setattr(plans, "choose_dtype", lambda config, decoder, device: torch.float32)
    return times


def plan_of(opened, config=AUTO):
    checkpoint = opened["0b6-custom_voice"]
    return choose_plan(config, checkpoint.model, checkpoint.codec.decoder)


@pytest.mark.parametrize(
    ("exact", "int8", "int4", "selected"),
    [(70, 40, 30, "exact"), (75, 40, 30, "int8"), (115, 75, 50, "int4"), (300, 150, 200, "int8")],
)
def test_auto_is_the_most_accurate_format_that_holds_real_time(exact, int8, int4, selected, machine, opened, caplog):
    machine.update(exact=(exact, exact), int8=(int8, int8), int4=(int4, int4))
    with caplog.at_level(logging.INFO):
        plan = plan_of(opened)
    assert (plan.weights, plan.threads, plan.in_turn) == (selected, 1, False)
    assert f"auto selects {selected}" in caplog.text
    assert f"exact {exact} ms" in caplog.text
    assert caplog.messages[-1].endswith("or engine.threads, to decide otherwise")


def test_the_log_says_how_to_measure_again(machine, opened, times_folder, caplog):
    def measured(shape, name, threads):
        return Timing(5.0, disturbed=False)

    machine.update(exact=(5, 5))
    cached_on_disk(measured)(0, "exact", 1)
    (file,) = times_folder.iterdir()
    with caplog.at_level(logging.INFO):
        plan_of(opened)
    options = "engine.talker.weights to exact, int8 or int4, or engine.threads,"
    assert f". Set {options} to decide otherwise. Delete {file} to measure again" in caplog.text


def test_the_stages_take_turns_if_more_threads_are_faster(machine, opened, caplog):
    machine.update(exact=(115, 110), int8=(85, 55), int4=(80, 40))
    with caplog.at_level(logging.INFO):
        plan = plan_of(opened)
    assert (plan.weights, plan.threads, plan.in_turn) == ("int8", 2, True)
    assert plan.measured == {"exact": 115, "int8": 66}
    assert "both stages run in turn, 2 threads each" in caplog.text
    assert plan.applied_to(AUTO).threads == 1
    assert plan.real_time_factor(0.5) == 0.5 + 11 / 80


def test_turns_are_measured_only_where_they_might_hold_real_time(machine, opened):
    machine.update(exact=(150, 1), int8=(120, 60), int4=(110, 90))
    assert plan_of(opened).measured == {"exact": 150, "int8": 71}
    machine.update(int8=(130, 1), int4=(125, 90))  # the last format is measured in any case
    assert plan_of(opened).measured == {"exact": 150, "int8": 130, "int4": 101}


def test_turns_that_are_hardly_faster_are_not_taken(machine, opened):
    machine.update(exact=(60, 47))
    assert not plan_of(opened).in_turn


def test_the_real_time_factor_side_by_side_is_that_of_the_slower_stage(machine, opened):
    machine.update(exact=(15, 15), code2wav=(40, 40))
    plan = plan_of(opened)
    assert (plan.real_time_factor(0.2), plan.real_time_factor(0.7)) == (0.5, 0.7)


def test_a_fast_model_runs_side_by_side(machine, opened):
    machine.update(exact=(5, 1), code2wav=(5, 1))
    plan = plan_of(opened)
    assert (plan.threads, plan.in_turn) == (1, False)


@pytest.mark.parametrize(
    "config", [EngineConfig(model="", threads=2), EngineConfig(model="", code2wav=Code2WavConfig(placement="process"))]
)
def test_stages_with_configured_threads_or_in_two_processes_run_side_by_side(config, machine, opened):
    machine.update(exact=(60, 10))
    assert not plan_of(opened, config).in_turn


def test_nothing_is_measured_if_format_and_threads_are_configured(machine, opened):
    config = EngineConfig(model="", threads=1, talker=TalkerConfig(weights="int8"))
    plan = plan_of(opened, config)
    assert (plan.weights, plan.threads, plan.measured) == ("int8", 1, {})


def test_every_format_can_be_measured(opened):
    checkpoint = opened["0b6-custom_voice"]
    shape = FrameShape.of(checkpoint.model.talker)
    formats = list(get_args(WeightFormat))
    plan = measure(shape, checkpoint.codec.decoder, torch.float32, formats, ThreadCounts(1, 2), every=True)
    assert list(plan.measured) == formats
    for name in formats:
        assert 0 < frame_ms(shape, name, 1) < 1000


def test_the_plan_keeps_what_is_configured(machine, opened):
    machine.update(exact=(5, 5))
    config = EngineConfig(model="", code2wav=Code2WavConfig(dtype="float16"))
    assert plan_of(opened, config).applied_to(config).code2wav.dtype == "float16"
    assert plan_of(opened).applied_to(AUTO).code2wav.dtype == "float32"


@pytest.mark.parametrize(
    ("runs", "int16", "bfloat16", "selected"),
    [
        (True, 8, 2, torch.int16),
        (True, 10, 9, torch.int16),
        (True, 10, 5, torch.bfloat16),
        (False, 10, 5, torch.int16),
    ],
)
def test_bfloat16_is_selected_if_int16_is_slow_and_bfloat16_much_faster(runs, int16, bfloat16, selected, monkeypatch):
    times = {torch.int16: int16, torch.bfloat16: bfloat16}
    monkeypatch.setattr(precision, "multiplies_int16", lambda: True)
    monkeypatch.setattr(precision, "bfloat16_runs", lambda: runs)
    monkeypatch.setattr(precision, "convolution_ms", lambda decoder, dtype, threads: times[dtype])
    assert choose_dtype(Code2WavConfig(), LARGE, CPU) is selected


def test_a_cpu_without_instructions_for_int16_computes_in_float32(monkeypatch):
    monkeypatch.setattr(precision, "multiplies_int16", lambda: False)
    assert choose_dtype(Code2WavConfig(), LARGE, CPU) is torch.float32


def test_a_configured_precision_or_a_small_decoder_is_not_measured(monkeypatch):
    monkeypatch.setattr(precision, "convolution_ms", lambda decoder, dtype, threads: 1 / 0)
    monkeypatch.setattr(precision, "bfloat16_runs", lambda: True)
    for dtype, selected in (
        ("float32", torch.float32),
        ("float16", torch.float32),
        ("int16", torch.int16),
        ("bfloat16", torch.bfloat16),
    ):
        assert choose_dtype(Code2WavConfig(dtype=dtype), LARGE, CPU) is selected
    assert choose_dtype(Code2WavConfig(), SMALL, CPU) is torch.float32


@pytest.mark.parametrize("dtype", ["bfloat16", "int16"])
def test_precisions_of_a_cpu_are_refused_on_a_gpu(dtype):
    with pytest.raises(SetupError, match=rf"code2wav\.dtype: {dtype} .* the device is cuda"):
        choose_dtype(Code2WavConfig(dtype=dtype), SMALL, torch.device("cuda"))


def test_bfloat16_is_refused_where_it_does_not_run(monkeypatch):
    monkeypatch.setattr(precision, "bfloat16_runs", lambda: False)
    with pytest.raises(SetupError, match=r"this CPU does not support it: set it to auto"):
        choose_dtype(Code2WavConfig(dtype="bfloat16"), SMALL, CPU)


def test_compiled_stages_have_one_torch_thread_for_the_rest_of_code2wav(monkeypatch):
    times = {(torch.float32, 1): 60, (torch.float32, 4): 20, (torch.int16, 4): 10}
    monkeypatch.setattr(precision, "convolution_ms", lambda decoder, dtype, threads: times[dtype, threads])
    assert precision.code2wav_ms(LARGE, torch.int16, 4) == pytest.approx(10 + 0.2 * 60)
    assert precision.code2wav_ms(LARGE, torch.float32, 4) == pytest.approx(20 + 0.35 * 20)
    assert [plans.CpuPlan("exact", each, 4, in_turn=True).compiled for each in (torch.float32, torch.int16)] == [
        False,
        True,
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int16])
def test_convolutions_are_measured(dtype):
    assert 0 < convolution_ms(SMALL, dtype, 1) < 1000


def test_calls_run_one_at_a_time_in_one_thread():
    compute = ComputeThread(2)
    order: list[str] = []
    began, proceed = threading.Event(), threading.Event()

    def first():
        began.set()
        proceed.wait()
        order.append("first")
        return threading.get_ident(), torch.get_num_threads()

    results = {}
    waiting = threading.Thread(target=lambda: results.update(first=compute.run(first)))
    waiting.start()
    began.wait()
    second = compute._executor.submit(lambda: order.append("second") or threading.get_ident())
    proceed.set()
    waiting.join()
    assert second.result() == results["first"][0] != threading.get_ident()
    assert order == ["first", "second"]
    assert results["first"][1] == 2
    assert torch.get_num_threads() == 1
    with pytest.raises(ZeroDivisionError):
        compute.run(lambda: 1 / 0)


def test_a_talker_in_the_compute_thread_gives_the_same_codes(opened):
    checkpoint = opened["0b6-custom_voice"]
    utterances = [prepare(request, checkpoint) for request in various_requests(checkpoint, 3)]
    alone = speak(native_talker(checkpoint), utterances)
    talker = ComputeThreadTalker(native_talker(checkpoint), ComputeThread(2))
    assert_same(speak(talker, utterances), alone)


def test_a_decoder_in_the_compute_thread_gives_the_same_samples(checkpoints):
    config = EngineConfig(model=str(checkpoints["0b6-custom_voice"]), device="cpu", threads=1)
    codes = np.random.default_rng(0).integers(0, 64, (1, 12, 16)).astype(np.int16)
    samples = []
    for compute in (None, ComputeThread(2)):
        decoder = load_decoder(config, compute)
        row = decoder.begin(codes[0, :5])
        samples.append(decoder.launch([row], codes).collect())
        decoder.end(row)
    assert np.array_equal(*samples)
