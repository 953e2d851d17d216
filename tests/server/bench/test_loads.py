"""The arrival times and bodies of the requests of a load."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from pathlib import Path

import pytest

from server.bench.workload import (
    PLANS,
    SENTENCES,
    Closed,
    Load,
    Open,
    Workload,
    closed_load,
    open_load,
    planned,
    read_texts,
    realtime_load,
    recording_url,
)


def test_poisson_arrivals_are_reproducible_by_seed() -> None:
    load = Open(10, requests=50)
    assert list(load.arrivals()) == list(load.arrivals())
    assert list(load.arrivals()) != list(Open(10, requests=50, seed=8).arrivals())


def test_poisson_arrivals_have_the_given_rate_and_variance() -> None:
    arrivals = list(Open(10, requests=4001).arrivals())
    gaps = [late - early for early, late in pairwise(arrivals)]
    mean = arrivals[-1] / len(gaps)
    assert arrivals[0] == 0.0
    assert mean == pytest.approx(0.1, rel=0.05)
    assert sum((gap - mean) ** 2 for gap in gaps) / len(gaps) == pytest.approx(mean**2, rel=0.1)


def test_even_arrivals() -> None:
    assert list(Open(4, requests=4, even=True).arrivals()) == [0.0, 0.25, 0.5, 0.75]


def test_the_first_limit_ends_a_load() -> None:
    assert len(list(Open(4, requests=100, seconds=2.0, even=True).arrivals())) == 8
    assert len(list(Open(4, requests=3, seconds=2.0, even=True).arrivals())) == 3
    assert len(list(Closed(2, requests=5).numbers())) == 5


def test_an_unlimited_load_gets_a_limit() -> None:
    assert open_load(40, None, None, even=False, seed=7).requests == 800
    assert open_load(1, None, None, even=False, seed=7).requests == 40
    assert open_load(1, None, 5.0, even=False, seed=7).requests is None
    assert closed_load(64, None, None).requests == 256
    assert realtime_load(64, None, None).seconds == 20
    assert realtime_load(64, 100, None).seconds is None


def test_the_plan_for_a_gpu() -> None:
    loads = planned("gpu", 5, None, even=False, seed=7)
    assert [str(load) for load in loads] == [
        *(f"{rate} a second" for rate in (1, 6, 10, 20, 40)),
        *(f"{count} at once" for count in (1, 8, 32, 64, 128, 256)),
    ]
    assert {load.requests for load in loads} == {5}


@pytest.mark.parametrize("name", PLANS)
def test_every_plan_is_finite(name: str) -> None:
    loads: list[Load] = planned(name, None, None, even=False, seed=7)
    assert all(load.requests for load in loads)


def test_texts_and_voices_alternate_and_every_request_has_a_seed() -> None:
    workload = Workload(("One.", "Two."), ("ava", "emma", "adam"), first_seed=5)
    bodies = [json.loads(workload.body(number)) for number in range(4)]
    assert [body["input"] for body in bodies] == ["One.", "Two.", "One.", "Two."]
    assert [body["voice"] for body in bodies] == ["ava", "emma", "adam", "ava"]
    assert [body["seed"] for body in bodies] == [5, 6, 7, 8]
    assert all((body["response_format"], body["stream"]) == ("pcm", True) for body in bodies)
    assert all("max_new_tokens" not in body for body in bodies)


def test_extra_fields_override_and_null_removes() -> None:
    workload = Workload(("One.",), ("ava",), {"seed": None, "voice": {"id": "v"}, "ignore_eos": True})
    assert json.loads(workload.body(0)) == {
        "input": "One.",
        "voice": {"id": "v"},
        "response_format": "pcm",
        "stream": True,
        "ignore_eos": True,
    }


def test_frames_are_a_number_or_follow_from_the_text() -> None:
    assert json.loads(Workload(("One.",), frames=63, frames_field="max_tokens").body(0))["max_tokens"] == 63
    workload = Workload(SENTENCES, frames="text")
    lengths = [workload.frames_of(number) for number in range(len(SENTENCES))]
    assert (min(lengths), max(lengths)) == (41, 76)
    assert json.loads(workload.body(0))["max_new_tokens"] == 76


def test_a_reference_file_is_sent_as_a_data_url_and_a_url_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "voice.wav"
    file.write_bytes(b"RIFF...")
    head, _, data = recording_url(str(file)).partition(",")
    assert (head, base64.b64decode(data)) == ("data:audio/wav;base64", b"RIFF...")
    assert recording_url("https://example.com/voice.wav") == "https://example.com/voice.wav"


def test_reads_one_text_per_line(tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    file.write_text("One.\n\n  Zwei. \n", "utf-8")
    assert read_texts(file) == ("One.", "Zwei.")
    for unreadable in (b"\n", b"\xff\xfe"):
        file.write_bytes(unreadable)
        with pytest.raises(ValueError, match="texts"):
            read_texts(file)


def test_requests_name_their_voice_for_load_balancers() -> None:
    rotating = Workload(("Hello.",), voices=("ava", "Zoë"))
    assert [rotating.headers(number) for number in range(3)] == [
        [("X-Sonant-Voice", "ava")],
        [("X-Sonant-Voice", "Zo%C3%AB")],
        [("X-Sonant-Voice", "ava")],
    ]
    assert Workload(("Hello.",), fields={"voice": "emma"}).headers(0) == [("X-Sonant-Voice", "emma")]
    assert Workload(("Hello.",)).headers(0) == []
