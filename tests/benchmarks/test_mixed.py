"""Mixed load on a small checkpoint: correct responses pass, and wrong ones are found."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from benchmarks.gpu.fp8_checkpoint import write_fp8_checkpoint
from benchmarks.mixed.clients import Response
from benchmarks.mixed.limits import exceeded_limits
from benchmarks.mixed.lines import Line
from benchmarks.mixed.recordings import same_voice, uncached
from benchmarks.mixed.samples import SampleComparison
from benchmarks.mixed.teacher import Teacher
from benchmarks.mixed.verdict import Verdict, check_diverged, compare, first_difference
from engine.checkpoint.folder import Checkpoint, open_checkpoint
from engine.protocol.request import SAMPLES_PER_FRAME, AudioChunk, SamplingParams, SpeechRequest, Voice
from tests.support.random_checkpoint import RandomCheckpoints
from tests.support.talkers import native_talker, prepare, speak

ROOT = Path(__file__).parents[2]
NAN = float("nan")


@pytest.fixture(scope="module")
def checkpoint(checkpoints: RandomCheckpoints) -> Checkpoint:
    return open_checkpoint(str(checkpoints["pocket"]))


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    sampling = SamplingParams(max_new_tokens=24, top_k=50)
    texts = ("Hello world.", "This is a test.", "Speak with a calm voice.")
    return [
        Line("named", SpeechRequest(text, speaker="ryan", sampling=replace(sampling, seed=seed)))
        for seed, text in enumerate(texts)
    ]


@pytest.fixture(scope="module")
def alone(lines: list[Line], checkpoint: Checkpoint) -> list[np.ndarray]:
    generated = speak(native_talker(checkpoint), [prepare(line.request, checkpoint) for line in lines])
    return [each.codes.astype(np.int16) for each in generated]


def verdict(
    checkpoint: Checkpoint,
    lines: list[Line],
    alone: list[np.ndarray],
    *responses: np.ndarray,
    complete: bool = True,
    seconds: float = 30,
) -> Verdict:
    teacher = Teacher(checkpoint, torch.device("cpu"), positions=256)
    under_load = [Response(0, "reads to the end", codes, complete, NAN, NAN) for codes in responses]
    without_load = [Response(number, "reads to the end", codes, True, NAN, NAN) for number, codes in enumerate(alone)]
    result, variants = compare(without_load, under_load, min_snr_db=25)
    check_diverged(result, variants, lines, without_load, teacher, tolerance=0.002, seconds=seconds)
    return result


def test_equal_and_cancelled_responses_are_good(checkpoint, lines, alone) -> None:
    assert verdict(checkpoint, lines, alone, alone[0]).good
    result = verdict(checkpoint, lines, alone, alone[0], alone[0][:3], complete=False)
    assert (result.equal, result.diverged, result.good) == (2, 0, True)
    assert (result.swapped, result.swapped_detected) == (3, 3)


def test_a_response_without_its_last_frame_has_a_wrong_length(checkpoint, lines, alone) -> None:
    result = verdict(checkpoint, lines, alone, alone[0][:-1])
    assert (result.wrong_length, result.good) == (1, False)


def test_a_response_of_another_line_and_one_foreign_frame_are_wrong(checkpoint, lines, alone) -> None:
    mixed = alone[0].copy()
    mixed[5] = alone[1][5]
    result = verdict(checkpoint, lines, alone, alone[1], mixed, complete=False)
    assert len(result.wrong) == 2
    assert any("from frame 5" in each for each in result.wrong)
    assert not result.good


def test_a_response_cancelled_before_its_first_frame_is_not_compared(checkpoint, lines, alone) -> None:
    result = verdict(checkpoint, lines, alone, alone[0], alone[0][:0], complete=False)
    assert (result.equal, result.without_frames, result.good) == (1, 1, True)
    assert "1 responses: 1 equal (100.0%)" in result.comparison_summary()


def test_unchecked_responses_are_not_good(checkpoint, lines, alone) -> None:
    result = verdict(checkpoint, lines, alone, alone[1], complete=False, seconds=-1)
    assert (result.diverged, result.unchecked, result.wrong, result.good) == (1, 1, [], False)
    assert "1 NOT" in result.check_summary()


def test_a_line_without_frames_is_wrong_and_the_others_are_checked(checkpoint, lines, alone) -> None:
    result = verdict(checkpoint, lines, [alone[0], alone[1][:0], alone[2]], alone[0])
    assert result.wrong == ["line 1 (named) without load has no frames"]
    assert (result.equal, result.swapped, result.swapped_detected, result.good) == (1, 2, 2, False)


def test_the_fp8_teacher_equals_the_teacher_of_the_rounded_checkpoint(checkpoint, lines, alone, tmp_path) -> None:
    write_fp8_checkpoint(checkpoint.folder, tmp_path / "fp8")
    rounded = open_checkpoint(str(tmp_path / "fp8"))
    unrounded, rounded_file, rounded_on_load = (
        Teacher(each, torch.device("cpu"), positions=256, fp8=fp8).slips(lines[0].request, [alone[0]])[0]
        for each, fp8 in ((checkpoint, False), (rounded, False), (checkpoint, True))
    )
    assert np.array_equal(rounded_on_load, rounded_file)
    assert not np.array_equal(rounded_on_load, unrounded)


def test_samples_of_another_stream_are_found(alone) -> None:
    random = np.random.default_rng(1)
    line, other = (random.integers(-9000, 9000, len(alone[0]) * SAMPLES_PER_FRAME).astype(np.int16) for _ in range(2))
    expected = AudioChunk(line, alone[0])

    def snr_db(samples: np.ndarray, codes: np.ndarray = alone[0]) -> float:
        result = SampleComparison(expected)
        for begin in range(0, len(codes), 5):
            within = slice(begin * SAMPLES_PER_FRAME, (begin + 5) * SAMPLES_PER_FRAME)
            result.add(AudioChunk(samples[within], codes[begin : begin + 5]))
        return result.snr_db

    swapped, diverged = line.copy(), alone[0].copy()
    swapped[-2 * SAMPLES_PER_FRAME :] = other[-2 * SAMPLES_PER_FRAME :]
    diverged[8] += 1
    assert snr_db(line) == float("inf")
    assert snr_db(line + random.integers(-9, 9, len(line)).astype(np.int16)) > 40
    assert snr_db(swapped) < 1
    assert snr_db(swapped, diverged) == float("inf"), "samples after the first different code are not compared"
    assert np.isnan(snr_db(other, alone[1][: len(alone[0])]))
    response = Response(0, "reads to the end", alone[0], True, NAN, NAN, snr_db(swapped), range(5, 10))
    result, _ = compare([Response(0, "reads to the end", alone[0], True, NAN, NAN)], [response], min_snr_db=25)
    assert (result.samples_compared, len(result.below), result.good) == (1, 1, False)
    assert "line 0, reads to the end: frames 5 to 9, difference" in result.comparison_summary()


def test_the_frames_with_the_largest_difference_are_known(alone) -> None:
    line = np.full(len(alone[0]) * SAMPLES_PER_FRAME, 100, np.int16)
    result = SampleComparison(AudioChunk(line, alone[0]))
    for begin, error in ((0, 1), (2, 7), (4, 3)):
        within = slice(begin * SAMPLES_PER_FRAME, (begin + 2) * SAMPLES_PER_FRAME)
        result.add(AudioChunk(line[within] + np.int16(error), alone[0][begin : begin + 2]))
    assert result.worst_frames == range(2, 4)


def test_index_of_the_first_different_code(alone) -> None:
    codes = alone[0]
    other = codes.copy()
    other[2, 7] += 1
    assert first_difference(other, codes) == 2 * 16 + 7
    assert first_difference(codes[:4], codes) is None
    assert first_difference(codes, codes[:4]) == 4 * 16


def test_a_different_voice_is_found() -> None:
    random = np.random.default_rng(1)
    codes = random.integers(2048, size=(50, 16))
    near, far, longer = codes.copy(), codes.copy(), np.concatenate([codes, codes])
    near[:1, :8] += 1
    far[:1] += 1
    vector = random.standard_normal(64).astype(np.float32)
    expected = Voice(vector, codes)
    assert same_voice(Voice(2 * vector, near), expected, share=0.99)
    assert not same_voice(Voice(vector, near), expected, share=1.0)
    for other in (far, longer, None):
        assert not same_voice(Voice(vector, other), expected, share=0.99)
    assert same_voice(Voice(vector), Voice(vector), share=1.0)
    assert not same_voice(Voice(vector + 0.02 * np.roll(vector, 1)), Voice(vector), share=1.0)
    assert not same_voice(Voice(np.full_like(vector, NAN)), Voice(vector), share=1.0)


def test_uncached_recordings_differ_in_bits_but_not_in_value() -> None:
    samples = np.ones(4, np.float32)
    several = [uncached(samples, number) for number in (0, 1, 2, 3, 1 << 31)]
    assert len({each.tobytes() for each in several}) == len(several)
    assert all(np.array_equal(each, several[0]) and each.dtype == np.float32 for each in several)


def test_growth_and_long_waits_exceed_their_limits() -> None:
    before = {"mib": 0.0, "files": 1, "threads": 1, "gpu_mib": {}}
    fifth = {"mib": 1000.0, "files": 10, "threads": 5, "gpu_mib": {"0": 20000.0}}
    within = {"mib": 1150.0, "files": 10, "threads": 4, "gpu_mib": {"0": 21100.0, "1": 9.0}}
    waits = {"first_worst_ms": 2100.0, "gap_worst_ms": 1900.0}
    assert exceeded_limits([before, fifth, within], {"first_worst_ms": 1999.0}, limit_waits=True) == []
    assert exceeded_limits([before, fifth, within], waits, limit_waits=False) == []
    messages = exceeded_limits(
        [before, fifth, {"mib": 1151.0, "files": 11, "threads": 6, "gpu_mib": {"0": 21101.0}}], {}, limit_waits=True
    )
    assert [each.split(" uses ")[0] for each in messages[:2]] == ["the engine", "GPU 0"]
    assert messages[2:] == [
        "11 files at the end, 10 after the first fifth",
        "6 threads at the end, 5 after the first fifth",
    ]
    assert exceeded_limits([before, fifth, within], waits, limit_waits=True) == [
        "longest wait for the first chunk is 2.1 s, the limit is 2 s"
    ]


def test_a_short_run_of_the_whole_program(checkpoints: RandomCheckpoints, tmp_path: Path) -> None:
    config, report = tmp_path / "sonant.yaml", tmp_path / "report.json"
    engine = {"model": str(checkpoints["pocket"]), "device": "cpu", "threads": 1}
    config.write_text(yaml.safe_dump({"engine": engine}))
    options = ["--config", config, "--json", report, "--minutes", "0.05", "--listeners", "4", "--lines", "6"]
    options += ["--recordings", "3"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.mixed.run", *map(str, options), "--longest", "20"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(report.read_text())
    assert set(result["kinds"]) <= {"named", "live", "batch", "x-vector", "live clone", "in context"}
    assert result["verdict"]["responses"] > 0
    compared = result["verdict"]["responses"] - result["verdict"]["without_frames"]
    assert result["verdict"]["equal"] == compared, "on a CPU all codes are equal"
    assert result["verdict"]["samples_compared"] == compared
    assert result["verdict"]["min_snr_db"] == float("inf"), "all samples are equal"
    recordings = result["recordings"]
    assert recordings["encoded"] > 0
    assert (recordings["different"], recordings["failed"], recordings["not_encoded"]) == (0, {}, 0)
    assert recordings["recordings"] == recordings["distinguished"] == 3
    assert result["exceeded_limits"] == []
    assert [usage["when"] for usage in result["usage"]] == ["before", "first fifth", "end"]
    assert result["still_in_use"] == {}
