"""The search for the number of real-time clients that a server sustains."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from benchmarks.http.capacity import StopSearch, Trials, largest, trial_of


@pytest.mark.parametrize("limit", [1, 5, 63, 64, 97, 480, 1000])
def test_the_search_ends_near_the_limit(limit: int) -> None:
    tried = []

    def sustains(number: int) -> bool:
        tried.append(number)
        return number <= limit

    result = largest(sustains, first=64, most=4096, precision=0.08)
    assert result <= limit
    assert limit <= result + max(1, 0.08 * result)
    assert len(tried) <= 14
    assert len(set(tried)) == len(tried)


def test_the_search_finds_none_or_all() -> None:
    assert largest(lambda _: False, first=64, most=4096, precision=0.08) == 0
    assert largest(lambda _: True, first=64, most=1000, precision=0.08) == 1000


def test_the_result_so_far_counts_when_time_is_over() -> None:
    def sustains(number: int) -> bool:
        if number > 100:
            raise StopSearch
        return True

    assert largest(sustains, first=64, most=4096, precision=0.08) == 96


def test_a_server_that_hangs_ends_the_search(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    def hang(command: list[str], *, timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    trials = Trials("http://127.0.0.1:1", [], seconds=12, wait=0, limit=200)
    assert largest(trials, first=64, most=4096, precision=0.08) == 0
    assert "64 clients: not finished within 132 s" in capsys.readouterr().out


def load(*underruns: float, asked: int | None = None) -> dict[str, Any]:
    return {
        "listeners": 7,
        "asked": asked or len(underruns),
        "each": [{"outcome": "ok", "underrun": underrun, "buffered_underrun": 0.0} for underrun in underruns],
        "first_byte_ms": {"p50": 12.0},
        "audio_seconds_a_second": 7.0,
        "client_busy": 0.1,
    }


def test_underruns_of_a_few_milliseconds_are_tolerated() -> None:
    assert trial_of(load(0.0, 0.004), buffered=False).sustained
    assert not trial_of(load(0.0, 0.006), buffered=False).sustained
    assert trial_of(load(0.0, 0.006), buffered=True).sustained


def test_a_number_with_failed_requests_is_not_sustained() -> None:
    result = trial_of(load(0.0, asked=2), buffered=False)
    assert (result.failed, result.sustained) == (1, False)
    assert "NOT sustained" in str(result)
