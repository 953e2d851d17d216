"""The search for how many listeners are held."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from benchmarks.http.capacity import StopTrials, Trials, largest, trial_of


@pytest.mark.parametrize("limit", [1, 5, 63, 64, 97, 480, 1000])
def test_the_search_ends_near_the_limit(limit: int) -> None:
    tried = []

    def holds(number: int) -> bool:
        tried.append(number)
        return number <= limit

    found = largest(holds, first=64, most=4096, precision=0.08)
    assert found <= limit
    assert limit <= found + max(1, 0.08 * found)
    assert len(tried) <= 14
    assert len(set(tried)) == len(tried)


def test_nothing_is_held_and_everything_is() -> None:
    assert largest(lambda _: False, first=64, most=4096, precision=0.08) == 0
    assert largest(lambda _: True, first=64, most=1000, precision=0.08) == 1000


def test_what_was_found_counts_when_time_is_over() -> None:
    def holds(number: int) -> bool:
        if number > 100:
            raise StopTrials
        return True

    assert largest(holds, first=64, most=4096, precision=0.08) == 96


def test_a_server_that_hangs_ends_the_search(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    def hang(command: list[str], *, timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    trials = Trials("http://127.0.0.1:1", [], seconds=12, wait=0, limit=200)
    assert largest(trials, first=64, most=4096, precision=0.08) == 0
    assert "64 listeners: no end in 132 s" in capsys.readouterr().out


def load(*lacks: float, asked: int | None = None) -> dict[str, Any]:
    return {
        "listeners": 7,
        "asked": asked or len(lacks),
        "each": [{"outcome": "ok", "underrun": lack, "buffered_underrun": 0.0} for lack in lacks],
        "first_byte_ms": {"p50": 12.0},
        "audio_seconds_a_second": 7.0,
        "client_busy": 0.1,
    }


def test_a_few_milliseconds_are_no_underrun() -> None:
    assert trial_of(load(0.0, 0.004), buffered=False).held
    assert not trial_of(load(0.0, 0.006), buffered=False).held
    assert trial_of(load(0.0, 0.006), buffered=True).held


def test_a_request_that_fails_is_not_held() -> None:
    found = trial_of(load(0.0, asked=2), buffered=False)
    assert (found.failed, found.held) == (1, False)
    assert "NOT held" in str(found)
