"""Word times of speech whose word times are known: held-out utterances of the pocket checkpoint's teacher."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from benchmarks.lib.timed_speech import TimedSpeech, read_timed_speech
from server.alignment.aligner import Aligner, english_aligner
from server.alignment.features import RATE
from server.alignment.tokens import words_of

RECORDINGS = read_timed_speech()


def errors(aligner: Aligner, recordings: list[TimedSpeech]) -> np.ndarray:
    """Distances in milliseconds from the known starts and ends [words, 2]."""
    found = [[(word.start, word.end) for word in aligner.align(each.samples, each.text)] for each in recordings]
    return 1000 * np.abs(
        np.concatenate([np.array(words) for words in found]) - [t for e in recordings for t in e.times]
    )


def test_words_are_found_within_tens_of_milliseconds() -> None:
    starts, ends = errors(english_aligner(), RECORDINGS).T
    assert np.median(starts) < 30
    assert np.percentile(starts, 95) < 80
    assert np.median(ends) < 30
    assert np.percentile(ends, 95) < 120


def test_level_and_noise_do_not_matter_much() -> None:
    random = np.random.default_rng(0)
    changed = [
        TimedSpeech(
            each.text,
            each.speaker,
            (each.samples * 0.3 + random.normal(0, 30, len(each.samples))).astype(np.int16),
            each.times,
        )
        for each in RECORDINGS[:8]
    ]
    assert np.median(errors(english_aligner(), changed)) < 40


def test_silence_before_between_and_after_belongs_to_no_word() -> None:
    first, second = RECORDINGS[0], RECORDINGS[1]
    silence = np.zeros(RATE, np.int16)
    samples = np.concatenate([silence, first.samples, silence, second.samples, silence])
    words = english_aligner().align(samples, f"{first.text} {second.text}")
    count, end = len(words_of(first.text)), 1 + len(first.samples) / RATE
    assert words[0].start > 0.95
    assert words[count - 1].end < end + 0.05
    assert words[count].start > end + 0.95
    assert words[-1].end < end + 1.05 + len(second.samples) / RATE


def test_speech_that_was_cut_has_the_words_before_the_cut() -> None:
    recording = max(RECORDINGS, key=lambda each: len(each.times))
    spoken = len(recording.times) // 2
    cut = int(recording.times[spoken - 1][1] * RATE)
    words = english_aligner().align(recording.samples[:cut], recording.text, complete=False)
    assert abs(len(words) - spoken) <= 1


@pytest.mark.parametrize("text", ["", "…", " \n "])
def test_a_text_without_words_has_no_times(text: str) -> None:
    assert english_aligner().align(RECORDINGS[0].samples, text) == []


@pytest.mark.parametrize("count", [0, 1, 239, 241, 5000])
def test_speech_of_any_length_gives_times_within_it(count: int) -> None:
    samples = RECORDINGS[0].samples[:count]
    words = english_aligner().align(samples, RECORDINGS[0].text)
    assert all(0 <= word.start <= word.end <= count / RATE + 0.011 for word in words)


def test_the_result_does_not_depend_on_the_blocks_that_are_encoded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = RECORDINGS[2]
    expected = english_aligner().align(recording.samples, recording.text)
    monkeypatch.setattr("server.alignment.network._BLOCK", 70)
    monkeypatch.setattr("server.alignment.aligner._BLOCK", 33)
    assert english_aligner().align(recording.samples, recording.text) == expected


def test_numpy_uses_one_thread() -> None:
    script = """
import os
import numpy as np
from server.alignment.worker import limit_blas_threads
assert limit_blas_threads()
a = np.ones((400, 400), np.float32)
others = [t for t in os.listdir("/proc/self/task") if int(t) != os.getpid()]
cpu = lambda: sum(int(open(f"/proc/self/task/{t}/stat").read().rsplit(")")[1].split()[11]) for t in others)
for _ in range(5):
    used = cpu()
    for _ in range(50):
        a @ a
    print(cpu() - used)
"""
    printed = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=300)
    assert "0" in printed.stdout.split(), "OpenBLAS's threads spin for a while after they start; later they use no time"


@pytest.mark.parametrize("size", [480, 1920, 7000, 40_000])
def test_speech_that_arrives_in_parts_has_the_same_times(size: int) -> None:
    recording = max(RECORDINGS, key=lambda each: len(each.times))
    alignment = english_aligner().start(recording.text)
    found = []
    for start in range(0, len(recording.samples), size):
        alignment.add(recording.samples[start : start + size])
        found += alignment.settled()
    early = len(found)
    assert found + alignment.finish() == english_aligner().align(recording.samples, recording.text)
    assert early > len(recording.times) // 2 or size > 10_000
