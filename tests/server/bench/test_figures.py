"""What the figures of ``sonant bench`` mean, by requests whose every moment is known."""

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

BEGAN = 100.0
SECOND = 48_000
"""Bytes of samples."""
FRAME = SECOND * 8 // 100


def trace(*pieces: tuple[float, int], **fields: Any) -> Trace:
    """A request of the very beginning that ends with its last piece; moments are seconds after that."""
    moments = [(BEGAN + moment, size) for moment, size in pieces]
    end = max((moment for moment, _ in moments), default=BEGAN)
    common = {"connected": BEGAN + 0.001, "answered": BEGAN + 0.02, "ended": end, "pieces": moments, "onset": 0}
    return replace(Trace(0, intended=BEGAN, sent=BEGAN), **{**common, **fields})


def figures(*pieces: tuple[float, int], buffer: float = 0.1, **fields: Any) -> Figures:
    return figures_of(trace(*pieces, **fields), began=BEGAN, buffer=buffer)


def test_pieces_in_time_are_no_underrun() -> None:
    made = figures((0.1, SECOND), (1.0, SECOND), (2.1, SECOND))
    assert (made.underruns, made.underrun) == (0, 0.0)
    assert (made.audio, made.total, made.real_time_factor) == (3.0, pytest.approx(2.1), pytest.approx(0.7))
    assert made.gap == pytest.approx(1.1)


def test_one_stalled_piece_is_one_underrun_as_long_as_it_is_late() -> None:
    made = figures((0.1, SECOND), (1.35, SECOND), (2.0, SECOND))
    assert made.underruns == 1
    assert made.underrun == pytest.approx(0.25)


def test_a_player_who_ran_dry_is_not_late_for_ever_after() -> None:
    made = figures((0.0, SECOND), (1.5, SECOND), (2.5, SECOND), (3.75, SECOND))
    assert made.underruns == 2
    assert made.underrun == pytest.approx(0.75)


def test_a_listener_who_waits_runs_dry_less() -> None:
    late = [(0.0, SECOND), (1.0625, SECOND), (2.1875, SECOND)]
    assert figures(*late, buffer=0.125).buffered_underruns == 1
    assert figures(*late, buffer=0.125).buffered_underrun == pytest.approx(0.0625)
    at_once = figures(*late)
    assert at_once.underrun == pytest.approx(0.1875)
    spared = figures(*late, buffer=at_once.underrun)
    assert (spared.buffered_underruns, spared.buffered_underrun) == (0, 0.0)


def test_the_first_playable_moment_has_a_whole_frame() -> None:
    made = figures((0.1, 2), (0.2, FRAME - 3), (0.3, 1), (0.4, FRAME))
    assert made.first_byte == pytest.approx(0.1)
    assert made.playable == pytest.approx(0.3)


def test_what_is_audible_came_and_is_heard_once_the_silence_before_it_is_played() -> None:
    made = figures((0.1, SECOND // 2), (0.2, SECOND), onset=24_000 * 3 // 4)
    assert made.silence == 0.75
    assert made.audible == pytest.approx(0.2)
    assert made.heard == pytest.approx(0.85)


def test_an_underrun_before_the_sound_delays_it() -> None:
    made = figures((0.0, SECOND // 2), (0.75, SECOND), onset=24_000)
    assert made.audible == pytest.approx(0.75)
    assert made.heard == pytest.approx(1.25)


def test_a_silent_utterance_has_no_onset() -> None:
    made = figures((0.1, SECOND), onset=None)
    assert made.ok
    assert all(math.isnan(value) for value in (made.audible, made.heard, made.silence))


def test_the_clock_starts_when_a_request_should_have_been_sent() -> None:
    """A client, or a connection, that is held up is part of what a listener waits for."""
    made = figures((2.1, SECOND), sent=BEGAN + 2.0, connected=BEGAN + 2.01, answered=BEGAN + 2.05)
    assert made.sent == pytest.approx(2.0)
    assert made.connect == pytest.approx(2.01)
    assert made.header == pytest.approx(2.05)
    assert made.first_byte == pytest.approx(2.1)


def test_the_rate_of_the_samples_counts() -> None:
    assert figures((0.0, SECOND), rate=8_000).audio == 3.0
    assert figures((0.1, 1278), (0.2, 2), rate=8_000).playable == pytest.approx(0.2)


def test_less_than_a_frame_is_no_speech() -> None:
    assert figures((0.1, FRAME - 2)).outcome == "no audio"
    assert figures().outcome == "no audio"


@pytest.mark.parametrize(("frames", "short"), [(None, False), (12, False), (15, False), (16, True)])
def test_an_utterance_that_ended_by_itself_is_told_from_one_that_was_cut(frames: int | None, short: bool) -> None:
    assert figures((0.1, 12 * FRAME), frames=frames).short is short


def test_percentiles_are_values_that_were_measured() -> None:
    measured = spread([float(value) for value in range(1, 201)])
    assert measured.percentiles == {50: 100.0, 90: 180.0, 95: 190.0, 99: 198.0}
    assert measured.worst == 200.0
    assert set(spread([3.0]).percentiles.values()) == {3.0}
    assert spread([math.nan, 2.0]).worst == 2.0
    assert math.isnan(spread([]).worst)


def test_a_summary_counts_whom_it_is_about() -> None:
    traces = [
        trace((0.1, SECOND), (1.0, SECOND)),
        trace((0.1, SECOND), (1.1625, SECOND)),
        trace((0.1, SECOND), (1.35, SECOND)),
        trace(outcome="429", detail="The server is full.", ended=BEGAN + 0.01),
        trace(outcome="429", detail="The server is full.", ended=BEGAN + 4.0),
    ]
    run = Run(Closed(5), traces, began=BEGAN, date=0.0, seconds=4.0, busy=1.0)
    summary = summary_of(run, [figures_of(each, began=BEGAN, buffer=0.1) for each in traces])
    assert (summary.requests, summary.succeeded) == (5, 3)
    assert summary.outcomes == {"ok": 3, "429": 2}
    assert summary.details == {"429": "The server is full."}
    assert summary.continuity == pytest.approx(2 / 3)
    assert (summary.underruns, summary.with_underruns, summary.with_buffered_underruns) == (2, 2, 1)
    assert summary.seconds == pytest.approx(4.0)
    assert summary.audio_per_second == pytest.approx(6 / 4)
    assert summary.spreads["total"].worst == pytest.approx(1.35), "who was turned away was not served fast"
    assert summary.client_busy == 0.25
