"""Mixed load on a small checkpoint: nothing is wrong, and what is wrong is found."""

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
from benchmarks.mixed.bounds import broken
from benchmarks.mixed.clients import Heard
from benchmarks.mixed.lines import Line
from benchmarks.mixed.recordings import alike, unheard
from benchmarks.mixed.samples import Likeness
from benchmarks.mixed.teacher import Teacher
from benchmarks.mixed.verdict import Verdict, compare, first_difference, judge
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
    said = speak(native_talker(checkpoint), [prepare(line.request, checkpoint) for line in lines])
    return [each.codes.astype(np.int16) for each in said]


def verdict(
    checkpoint: Checkpoint,
    lines: list[Line],
    alone: list[np.ndarray],
    *heard: np.ndarray,
    whole: bool = True,
    seconds: float = 30,
) -> Verdict:
    teacher = Teacher(checkpoint, torch.device("cpu"), positions=256)
    listened = [Heard(0, "to the end", codes, whole, NAN, NAN) for codes in heard]
    solo = [Heard(number, "to the end", codes, True, NAN, NAN) for number, codes in enumerate(alone)]
    found, variants = compare(solo, listened, decibels=25)
    judge(found, variants, lines, solo, teacher, tolerance=0.002, seconds=seconds)
    return found


def test_the_same_and_the_beginning_of_it_are_right(checkpoint, lines, alone) -> None:
    assert verdict(checkpoint, lines, alone, alone[0]).good
    found = verdict(checkpoint, lines, alone, alone[0], alone[0][:3], whole=False)
    assert (found.equal, found.parted, found.good) == (2, 0, True)
    assert (found.swapped, found.confused) == (3, 3)


def test_a_line_that_lacks_its_end_is_short(checkpoint, lines, alone) -> None:
    found = verdict(checkpoint, lines, alone, alone[0][:-1])
    assert (found.short, found.good) == (1, False)


def test_another_line_and_a_frame_of_one_are_wrong(checkpoint, lines, alone) -> None:
    mixed = alone[0].copy()
    mixed[5] = alone[1][5]
    found = verdict(checkpoint, lines, alone, alone[1], mixed, whole=False)
    assert len(found.wrong) == 2
    assert any("from frame 5" in each for each in found.wrong)
    assert not found.good


def test_a_line_given_up_before_its_first_frame_is_equal_to_nothing(checkpoint, lines, alone) -> None:
    found = verdict(checkpoint, lines, alone, alone[0], alone[0][:0], whole=False)
    assert (found.equal, found.unheard, found.good) == (1, 1, True)
    assert "1 lines heard: 1 as alone (100.0%)" in found.compared()


def test_what_there_was_no_time_to_judge_is_not_good(checkpoint, lines, alone) -> None:
    found = verdict(checkpoint, lines, alone, alone[1], whole=False, seconds=-1)
    assert (found.parted, found.unjudged, found.wrong, found.good) == (1, 1, [], False)
    assert "1 NOT" in found.judgement()


def test_a_line_that_has_no_frames_alone_is_wrong_and_the_others_are_judged(checkpoint, lines, alone) -> None:
    found = verdict(checkpoint, lines, [alone[0], alone[1][:0], alone[2]], alone[0])
    assert found.wrong == ["line 1 (named), heard alone, has no frames"]
    assert (found.equal, found.swapped, found.confused, found.good) == (1, 2, 2, False)


def test_the_teacher_of_eight_bits_is_that_of_the_rounded_checkpoint(checkpoint, lines, alone, tmp_path) -> None:
    write_fp8_checkpoint(checkpoint.folder, tmp_path / "fp8")
    rounded = open_checkpoint(str(tmp_path / "fp8"))
    whole, known, told = (
        Teacher(each, torch.device("cpu"), positions=256, fp8=fp8).slips(lines[0].request, [alone[0]])[0]
        for each, fp8 in ((checkpoint, False), (rounded, False), (checkpoint, True))
    )
    assert np.array_equal(told, known)
    assert not np.array_equal(told, whole)


def test_samples_that_are_another_streams_are_found(alone) -> None:
    random = np.random.default_rng(1)
    line, other = (random.integers(-9000, 9000, len(alone[0]) * SAMPLES_PER_FRAME).astype(np.int16) for _ in range(2))
    own = AudioChunk(line, alone[0])

    def likeness(samples: np.ndarray, codes: np.ndarray = alone[0]) -> float:
        found = Likeness(own)
        for begin in range(0, len(codes), 5):
            within = slice(begin * SAMPLES_PER_FRAME, (begin + 5) * SAMPLES_PER_FRAME)
            found.heard(AudioChunk(samples[within], codes[begin : begin + 5]))
        return found.decibels

    swapped, parted = line.copy(), alone[0].copy()
    swapped[-2 * SAMPLES_PER_FRAME :] = other[-2 * SAMPLES_PER_FRAME :]
    parted[8] += 1
    assert likeness(line) == float("inf")
    assert likeness(line + random.integers(-9, 9, len(line)).astype(np.int16)) > 40
    assert likeness(swapped) < 1
    assert likeness(swapped, parted) == float("inf"), "what comes after the codes part is another line"
    assert np.isnan(likeness(other, alone[1][: len(alone[0])]))
    heard = Heard(0, "to the end", alone[0], True, NAN, NAN, likeness(swapped))
    found, _ = compare([Heard(0, "to the end", alone[0], True, NAN, NAN)], [heard], decibels=25)
    assert (found.sounded, found.unlike, found.good) == (1, 1, False)


def test_where_lines_part(alone) -> None:
    codes = alone[0]
    other = codes.copy()
    other[2, 7] += 1
    assert first_difference(other, codes) == 2 * 16 + 7
    assert first_difference(codes[:4], codes) is None
    assert first_difference(codes, codes[:4]) == 4 * 16


def test_a_voice_that_is_another_is_found() -> None:
    random = np.random.default_rng(1)
    codes = random.integers(2048, size=(50, 16))
    near, far, longer = codes.copy(), codes.copy(), np.concatenate([codes, codes])
    near[:1, :8] += 1
    far[:1] += 1
    vector = random.standard_normal(64).astype(np.float32)
    own = Voice(vector, codes)
    assert alike(Voice(2 * vector, near), own, share=0.99)
    assert not alike(Voice(vector, near), own, share=1.0)
    for other in (far, longer, None):
        assert not alike(Voice(vector, other), own, share=0.99)
    assert alike(Voice(vector), Voice(vector), share=1.0)
    assert not alike(Voice(vector + 0.02 * np.roll(vector, 1)), Voice(vector), share=1.0)
    assert not alike(Voice(np.full_like(vector, NAN)), Voice(vector), share=1.0)


def test_a_recording_that_is_new_by_its_bits_sounds_the_same() -> None:
    samples = np.ones(4, np.float32)
    several = [unheard(samples, number) for number in (0, 1, 2, 3, 1 << 31)]
    assert len({each.tobytes() for each in several}) == len(several)
    assert all(np.array_equal(each, several[0]) and each.dtype == np.float32 for each in several)


def test_growth_and_stalls_break_their_bounds() -> None:
    before = {"mib": 0.0, "files": 1, "threads": 1, "gpu_mib": {}}
    fifth = {"mib": 1000.0, "files": 10, "threads": 5, "gpu_mib": {"0": 20000.0}}
    within = {"mib": 1150.0, "files": 10, "threads": 4, "gpu_mib": {"0": 21100.0, "1": 9.0}}
    waits = {"first_worst_ms": 2100.0, "gap_worst_ms": 1900.0}
    assert broken([before, fifth, within], {"first_worst_ms": 1999.0}, bounded=True) == []
    assert broken([before, fifth, within], waits, bounded=False) == []
    said = broken(
        [before, fifth, {"mib": 1151.0, "files": 11, "threads": 6, "gpu_mib": {"0": 21101.0}}], {}, bounded=True
    )
    assert [each.split(" has ")[0] for each in said[:2]] == ["the engine", "GPU 0"]
    assert said[2:] == ["11 files at the end, and 10 after a fifth", "6 threads at the end, and 5 after a fifth"]
    assert broken([before, fifth, within], waits, bounded=True) == [
        "somebody waited 2.1 s for a first chunk, and 2 s is the bound"
    ]


def test_some_seconds_of_everything(checkpoints: RandomCheckpoints, tmp_path: Path) -> None:
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
    found = json.loads(report.read_text())
    assert set(found["kinds"]) <= {"named", "live", "batch", "x-vector", "live clone", "in context"}
    assert found["verdict"]["heard"] > 0
    compared = found["verdict"]["heard"] - found["verdict"]["unheard"]
    assert found["verdict"]["equal"] == compared, "on a CPU everything is equal"
    assert found["verdict"]["sounded"] == compared
    assert found["verdict"]["likeness"] == float("inf"), "samples too"
    recordings = found["recordings"]
    assert recordings["encoded"] > 0
    assert (recordings["unlike"], recordings["failed"], recordings["not_encoded"]) == (0, {}, 0)
    assert recordings["different"] == recordings["told_apart"] == 3
    assert found["broken"] == []
    assert [held["when"] for held in found["held"]] == ["before", "first fifth", "end"]
    assert found["left"] == {}
