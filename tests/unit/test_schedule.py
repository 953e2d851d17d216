"""Chunks follow playback: early when a listener waits, late and large when it has enough in hand."""

from math import inf

import pytest
from pydantic import ValidationError

from engine.code2wav.schedule import CHUNKS, FRAME_SECONDS, Batch, Progress, Schedule
from engine.config import Code2WavConfig

NOW = 1000.0
SCHEDULE = Schedule(first_frames=2, max_chunk_frames=8, max_batch_frames=16, lead=0.24)


def test_no_chunk_may_be_configured_larger_than_the_largest_there_is():
    assert Code2WavConfig(max_chunk_frames=CHUNKS[-1]).max_chunk_frames == CHUNKS[-1]
    with pytest.raises(ValidationError):
        Code2WavConfig(max_chunk_frames=CHUNKS[-1] + 1)


def listening(pending=0, made=0, started=None, ended=False, room=100):
    return Progress(True, pending, made, started, ended, room)


def test_the_first_chunk_is_made_as_soon_as_it_can_be_heard():
    assert SCHEDULE.pick({1: listening(pending=1)}, NOW) == inf
    assert SCHEDULE.pick({1: listening(pending=2)}, NOW) == Batch([1], 2)


def test_an_utterance_shorter_than_a_first_chunk_is_made_at_its_end():
    assert SCHEDULE.pick({1: listening(pending=1, ended=True)}, NOW) == Batch([1], 1)


def test_the_next_chunk_waits_until_the_listener_needs_it():
    stream = listening(pending=3, made=5, started=NOW)
    due = NOW + 5 * FRAME_SECONDS - SCHEDULE.lead
    assert SCHEDULE.pick({1: stream}, NOW) == pytest.approx(due)
    assert SCHEDULE.pick({1: stream}, due) == Batch([1], 3)


def test_a_full_chunk_need_not_wait():
    stream = listening(pending=25, made=50, started=NOW)
    assert SCHEDULE.pick({1: stream}, NOW) == Batch([1], 8)


def test_chunks_come_in_few_sizes():
    streams = [listening(pending=n, made=99, started=NOW, ended=True) for n in range(1, 40)]
    sizes = {SCHEDULE.pick({1: stream}, NOW).frames for stream in streams}
    assert sizes == {1, 2, 3, 4, 6, 8}


def test_a_listener_gets_no_more_at_once_than_it_has_in_hand():
    stream = listening(pending=50, ended=True)
    chunks = []
    while stream.pending:
        chunks.append(SCHEDULE.pick({1: stream}, NOW).frames)
        stream.started = NOW
        stream.decoded += chunks[-1]
        stream.pending -= chunks[-1]
    assert chunks == [2, 2, 4, 8, 8, 8, 8, 8, 2]


def test_whoever_is_late_gets_a_frame_at_once():
    assert SCHEDULE.pick({1: listening(pending=20, made=5, started=NOW - 1)}, NOW) == Batch([1], 1)


def test_of_the_streams_with_enough_in_hand_the_poorest_goes_first():
    rich = listening(pending=30, made=60, started=NOW)
    poor = listening(pending=30, made=20, started=NOW)
    assert SCHEDULE.pick({1: rich, 2: poor}, NOW).streams[0] == 2


def test_whoever_runs_dry_first_goes_first():
    streams = {
        1: listening(pending=1, made=10, started=NOW - 1.0),
        2: listening(pending=1, made=10, started=NOW - 2.0),
        3: listening(pending=2),
    }
    assert SCHEDULE.pick(streams, NOW) == Batch([3], 2)
    del streams[3]
    assert SCHEDULE.pick(streams, NOW) == Batch([2, 1], 1)


def test_due_streams_with_as_many_frames_share_a_batch_up_to_its_size():
    streams = {number: listening(pending=9, made=4 + number, started=NOW) for number in range(8)}
    streams[1].pending = 3
    assert SCHEDULE.pick(streams, NOW) == Batch([0, 2, 3, 4], 4)
    for number in range(4, 8):
        del streams[number]
    assert SCHEDULE.pick(streams, NOW) == Batch([0, 2], 4)


def test_a_listener_that_takes_nothing_gets_nothing_made():
    assert SCHEDULE.pick({1: listening(pending=20, made=5, started=NOW - 100, room=0)}, NOW) == inf
    assert SCHEDULE.pick({1: listening(pending=20, made=5, started=NOW - 0.16, room=2)}, NOW) == Batch([1], 2)


def test_what_nobody_listens_to_yet_is_made_in_large_chunks_after_the_others():
    whole = Progress(False, pending=7, credit=100)
    assert SCHEDULE.pick({1: whole}, NOW) == inf
    whole.pending = 12
    assert SCHEDULE.pick({1: whole}, NOW) == Batch([1], 8)
    late = listening(pending=1, made=1, started=NOW - 5)
    assert SCHEDULE.pick({1: whole, 2: late}, NOW).streams[0] == 2


def simulate(schedule, count, frame_every, batch_takes):
    """How late the first chunk and the latest later one are, in simulated seconds, for listeners who begin together.

    frame_every: seconds in which the talker makes a frame of each; batch_takes: (streams, frames) -> seconds.
    """
    streams = {number: listening(room=128) for number in range(count)}
    total, now, first, worst = 75, 0.0, 0.0, -inf
    while any(stream.decoded < total for stream in streams.values()):
        for stream in streams.values():
            come = min(total, int(now / frame_every) + 1)
            stream.pending, stream.ended = come - stream.decoded, come == total
        batch = schedule.pick({number: each for number, each in streams.items() if each.pending}, now)
        if not isinstance(batch, Batch):
            now += 0.001
            continue
        now += batch_takes(len(batch.streams), batch.frames)
        for number in batch.streams:
            stream = streams[number]
            if stream.started is None:
                stream.started = first = now
            worst = max(worst, now - stream.underrun_at) if stream.decoded else worst
            stream.decoded += batch.frames
    return first, worst


@pytest.mark.parametrize(("count", "slowness"), [(1, 4), (2, 3), (4, 2), (6, 1.5), (8, 1)])
def test_listeners_who_begin_together_do_not_run_dry(count, slowness):
    """A batch takes 3 ms and 5 a frame, as the pocket checkpoint's on a CPU, each ``slowness`` times as long."""
    schedule = Schedule(first_frames=1, max_chunk_frames=12, max_batch_frames=24, lead=0.24)
    _, late = simulate(
        schedule, count, 0.01 * slowness, lambda streams, frames: slowness * (0.003 + 0.005 * streams * frames)
    )
    assert late < 0


@pytest.mark.parametrize(("count", "step"), [(1, 0.005), (64, 0.01), (256, 0.02), (400, 0.03)])
def test_on_a_gpu_all_first_chunks_leave_together_and_nobody_runs_dry(count, step):
    """A batch takes 1 ms and 0.02 a frame, as the 1.7B checkpoint's on an H200, with what Python adds."""
    schedule = Schedule.from_config(Code2WavConfig(), padded=True)
    first, late = simulate(schedule, count, step, lambda streams, frames: 0.001 + 0.00002 * streams * frames)
    assert first < 0.002 + 0.00004 * count
    assert late < -0.04


def test_a_batch_that_is_filled_up_may_have_any_number_of_streams():
    schedule = Schedule(first_frames=1, max_chunk_frames=8, max_batch_frames=256, lead=0.24, padded=True)
    streams = {number: listening(pending=1) for number in range(300)}
    assert len(schedule.pick(dict(list(streams.items())[:37]), NOW).streams) == 37
    assert len(schedule.pick(streams, NOW).streams) == 256
    for stream in streams.values():
        stream.pending, stream.decoded, stream.started = 8, 20, NOW
    assert schedule.pick(streams, NOW) == Batch(list(range(32)), 8)


def test_no_streams_no_alarm():
    assert SCHEDULE.pick({}, NOW) == inf
