"""The figures of ``sonant bench``, computed from requests with known timing."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from server.bench.figures import Figures, figures_of
from server.bench.run import Run
from server.bench.summary import spread, summary_of
from server.bench.trace import Trace
from server.bench.workload import Closed

START = 100.0
SECOND = 48_000
"""Bytes of one second of samples."""
FRAME = SECOND * 8 // 100


def trace(*pieces: tuple[float, int], **fields: Any) -> Trace:
    """The trace of a request sent at START that ends with its last piece. Times are in seconds after START."""
    moments = [(START + moment, size) for moment, size in pieces]
    end = max((moment for moment, _ in moments), default=START)
    common = {"connected": START + 0.001, "answered": START + 0.02, "ended": end, "pieces": moments, "onset": 0}
    return replace(Trace(0, intended=START, sent=START), **{**common, **fields})


def figures(*pieces: tuple[float, int], buffer: float = 0.1, **fields: Any) -> Figures:
    return figures_of(trace(*pieces, **fields), began=START, buffer=buffer)


def test_pieces_in_time_are_no_underrun() -> None:
    result = figures((0.1, SECOND), (1.0, SECOND), (2.1, SECOND))
    assert (result.underruns, result.underrun) == (0, 0.0)
    assert (result.audio, result.total, result.real_time_factor) == (3.0, pytest.approx(2.1), pytest.approx(0.7))
    assert result.gap == pytest.approx(1.1)


def test_one_late_piece_is_one_underrun_for_its_delay() -> None:
    result = figures((0.1, SECOND), (1.35, SECOND), (2.0, SECOND))
    assert result.underruns == 1
    assert result.underrun == pytest.approx(0.25)


def test_playback_resumes_after_an_underrun() -> None:
    result = figures((0.0, SECOND), (1.5, SECOND), (2.5, SECOND), (3.75, SECOND))
    assert result.underruns == 2
    assert result.underrun == pytest.approx(0.75)


def test_a_player_buffer_reduces_underruns() -> None:
    late = [(0.0, SECOND), (1.0625, SECOND), (2.1875, SECOND)]
    assert figures(*late, buffer=0.125).buffered_underruns == 1
    assert figures(*late, buffer=0.125).buffered_underrun == pytest.approx(0.0625)
    unbuffered = figures(*late)
    assert unbuffered.underrun == pytest.approx(0.1875)
    buffered = figures(*late, buffer=unbuffered.underrun)
    assert (buffered.buffered_underruns, buffered.buffered_underrun) == (0, 0.0)


def test_playable_is_the_time_of_the_first_complete_frame() -> None:
    result = figures((0.1, 2), (0.2, FRAME - 3), (0.3, 1), (0.4, FRAME))
    assert result.first_byte == pytest.approx(0.1)
    assert result.playable == pytest.approx(0.3)


def test_audible_and_heard_differ_by_the_leading_silence() -> None:
    result = figures((0.1, SECOND // 2), (0.2, SECOND), onset=24_000 * 3 // 4)
    assert result.silence == 0.75
    assert result.audible == pytest.approx(0.2)
    assert result.heard == pytest.approx(0.85)


def test_an_underrun_in_the_leading_silence_delays_the_onset() -> None:
    result = figures((0.0, SECOND // 2), (0.75, SECOND), onset=24_000)
    assert result.audible == pytest.approx(0.75)
    assert result.heard == pytest.approx(1.25)


def test_a_silent_utterance_has_no_onset() -> None:
    result = figures((0.1, SECOND), onset=None)
    assert result.ok
    assert all(math.isnan(value) for value in (result.audible, result.heard, result.silence))


def test_times_start_when_a_request_was_due() -> None:
    """A delay of the client or of its connection is part of the latency that a user experiences."""
    result = figures((2.1, SECOND), sent=START + 2.0, connected=START + 2.01, answered=START + 2.05)
    assert result.sent == pytest.approx(2.0)
    assert result.connect == pytest.approx(2.01)
    assert result.header == pytest.approx(2.05)
    assert result.first_byte == pytest.approx(2.1)


def test_the_sample_rate_is_used() -> None:
    assert figures((0.0, SECOND), rate=8_000).audio == 3.0
    assert figures((0.1, 1278), (0.2, 2), rate=8_000).playable == pytest.approx(0.2)


def test_less_than_a_frame_is_no_audio() -> None:
    assert figures((0.1, FRAME - 2)).outcome == "no audio"
    assert figures().outcome == "no audio"


@pytest.mark.parametrize(("frames", "short"), [(None, False), (12, False), (15, False), (16, True)])
def test_an_utterance_much_shorter_than_requested_is_short(frames: int | None, short: bool) -> None:
    assert figures((0.1, 12 * FRAME), frames=frames).short is short


def test_percentiles_are_measured_values() -> None:
    measured = spread([float(value) for value in range(1, 201)])
    assert measured.percentiles == {50: 100.0, 90: 180.0, 95: 190.0, 99: 198.0}
    assert measured.worst == 200.0
    assert set(spread([3.0]).percentiles.values()) == {3.0}
    assert spread([math.nan, 2.0]).worst == 2.0
    assert math.isnan(spread([]).worst)


def test_a_summary_counts_successful_requests_only() -> None:
    traces = [
        trace((0.1, SECOND), (1.0, SECOND)),
        trace((0.1, SECOND), (1.1625, SECOND)),
        trace((0.1, SECOND), (1.35, SECOND)),
        trace(outcome="429", detail="The server is full.", ended=START + 0.01),
        trace(outcome="429", detail="The server is full.", ended=START + 4.0),
    ]
    run = Run(Closed(5), traces, began=START, date=0.0, seconds=4.0, busy=1.0)
    summary = summary_of(run, [figures_of(each, began=START, buffer=0.1) for each in traces])
    assert (summary.requests, summary.succeeded) == (5, 3)
    assert summary.outcomes == {"ok": 3, "429": 2}
    assert summary.details == {"429": "The server is full."}
    assert summary.continuity == pytest.approx(2 / 3)
    assert (summary.underruns, summary.with_underruns, summary.with_buffered_underruns) == (2, 2, 1)
    assert summary.seconds == pytest.approx(4.0)
    assert summary.audio_per_second == pytest.approx(6 / 4)
    assert summary.spreads["total"].worst == pytest.approx(1.35), "refused requests do not count as fast"
    assert summary.client_busy == 0.25
