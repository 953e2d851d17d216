"""Chunk scheduling by playback: small when a client is about to run out of audio, large when it has a buffer."""

from math import inf

import pytest
from pydantic import ValidationError

from engine.code2wav.schedule import CHUNKS, FRAME_SECONDS, Batch, Progress, Schedule
from engine.config import Code2WavConfig

NOW = 1000.0
SCHEDULE = Schedule(first_frames=2, max_chunk_frames=8, max_batch_frames=16, lead=0.24)


def test_refuses_a_chunk_size_above_the_largest():
    assert Code2WavConfig(max_chunk_frames=CHUNKS[-1]).max_chunk_frames == CHUNKS[-1]
    with pytest.raises(ValidationError):
        Code2WavConfig(max_chunk_frames=CHUNKS[-1] + 1)


def progress(pending=0, made=0, playback_origin=None, ended=False, room=100):
    return Progress(True, pending, made, playback_origin, ended, room)


def idle_until(streams):
    """Return when the next chunk is due, after checking that there is no batch before."""
    assert SCHEDULE.next_batch(streams, NOW) is None
    return SCHEDULE.next_due(streams, NOW)


def test_the_first_chunk_is_decoded_as_soon_as_it_is_playable():
    assert idle_until({1: progress(pending=1)}) == inf
    assert SCHEDULE.next_batch({1: progress(pending=2)}, NOW) == Batch([1], 2)


def test_an_utterance_shorter_than_the_first_chunk_is_decoded_at_its_end():
    assert SCHEDULE.next_batch({1: progress(pending=1, ended=True)}, NOW) == Batch([1], 1)


def test_the_next_chunk_waits_until_it_is_due():
    stream = progress(pending=3, made=5, playback_origin=NOW)
    due = NOW + 5 * FRAME_SECONDS - SCHEDULE.lead
    assert idle_until({1: stream}) == pytest.approx(due)
    assert SCHEDULE.next_batch({1: stream}, due) == Batch([1], 3)


def test_a_full_chunk_does_not_wait():
    stream = progress(pending=25, made=50, playback_origin=NOW)
    assert SCHEDULE.next_batch({1: stream}, NOW) == Batch([1], 8)


def test_chunks_have_few_sizes():
    streams = [progress(pending=n, made=99, playback_origin=NOW, ended=True) for n in range(1, 40)]
    sizes = {SCHEDULE.next_batch({1: stream}, NOW).frames for stream in streams}
    assert sizes == {1, 2, 3, 4, 6, 8}


def test_a_chunk_is_no_larger_than_the_buffered_audio():
    stream = progress(pending=50, ended=True)
    chunks = []
    while stream.pending:
        chunks.append(SCHEDULE.next_batch({1: stream}, NOW).frames)
        stream.playback_origin = NOW
        stream.decoded += chunks[-1]
        stream.pending -= chunks[-1]
    assert chunks == [2, 2, 4, 8, 8, 8, 8, 8, 2]


def test_a_late_stream_gets_one_frame_at_once():
    assert SCHEDULE.next_batch({1: progress(pending=20, made=5, playback_origin=NOW - 1)}, NOW) == Batch([1], 1)


def test_after_many_underruns_chunks_have_several_frames():
    stream = progress(pending=1, made=4, playback_origin=NOW - 4 * FRAME_SECONDS)
    for _ in range(3):
        stream.record_decoded(1, NOW)
        stream.pending = 3
    assert SCHEDULE.next_batch({1: stream}, NOW + 1) == Batch([1], 1)
    stream.record_decoded(1, NOW + 1)
    assert idle_until({1: stream}) == inf
    stream.pending = 5
    assert SCHEDULE.next_batch({1: stream}, NOW + 2) == Batch([1], 4)
    stream.pending, stream.ended = 1, True
    assert SCHEDULE.next_batch({1: stream}, NOW + 2) == Batch([1], 1)


def test_of_buffered_streams_the_one_with_the_least_audio_goes_first():
    more_buffered = progress(pending=30, made=60, playback_origin=NOW)
    less_buffered = progress(pending=30, made=20, playback_origin=NOW)
    assert SCHEDULE.next_batch({1: more_buffered, 2: less_buffered}, NOW).streams[0] == 2


def test_the_stream_that_runs_out_first_goes_first():
    streams = {
        1: progress(pending=1, made=10, playback_origin=NOW - 1.0),
        2: progress(pending=1, made=10, playback_origin=NOW - 2.0),
        3: progress(pending=2),
    }
    assert SCHEDULE.next_batch(streams, NOW) == Batch([3], 2)
    del streams[3]
    assert SCHEDULE.next_batch(streams, NOW) == Batch([2, 1], 1)


def test_due_streams_with_equal_frames_share_a_batch_up_to_its_size():
    streams = {number: progress(pending=9, made=4 + number, playback_origin=NOW) for number in range(8)}
    streams[1].pending = 3
    assert SCHEDULE.next_batch(streams, NOW) == Batch([0, 2, 3, 4], 4)
    for number in range(4, 8):
        del streams[number]
    assert SCHEDULE.next_batch(streams, NOW) == Batch([0, 2], 4)


def test_a_stream_without_room_is_not_decoded():
    assert idle_until({1: progress(pending=20, made=5, playback_origin=NOW - 100, room=0)}) == inf
    assert SCHEDULE.next_batch({1: progress(pending=20, made=5, playback_origin=NOW - 0.16, room=2)}, NOW) == Batch(
        [1], 2
    )


def test_non_streaming_utterances_are_decoded_last_in_large_chunks():
    offline = Progress(False, pending=7, credit=100)
    assert idle_until({1: offline}) == inf
    offline.pending = 12
    assert SCHEDULE.next_batch({1: offline}, NOW) == Batch([1], 8)
    late = progress(pending=1, made=1, playback_origin=NOW - 5)
    assert SCHEDULE.next_batch({1: offline, 2: late}, NOW).streams[0] == 2


def simulate(schedule, count, frame_every, batch_takes, start_every=0.0):
    """Simulate ``count`` streams of 75 frames.

    frame_every: seconds per frame of each stream; batch_takes: (streams, frames) -> seconds; start_every: seconds from
    the start of a stream to that of the next. Returns the time of the last first chunk, the worst lateness of a later
    chunk, in seconds, and the mean number of chunks of a stream.
    """
    streams = {number: progress(room=128) for number in range(count)}
    total, now, first, worst, chunks = 75, 0.0, 0.0, -inf, 0
    while any(stream.decoded < total for stream in streams.values()):
        for number, stream in streams.items():
            available = min(total, int((now - number * start_every) / frame_every) + 1)
            stream.pending, stream.ended = max(0, available - stream.decoded), available == total
        batch = schedule.next_batch({number: each for number, each in streams.items() if each.pending}, now)
        if batch is None:
            now += 0.001
            continue
        now += batch_takes(len(batch.streams), batch.frames)
        chunks += len(batch.streams)
        for number in batch.streams:
            stream = streams[number]
            if stream.playback_origin is None:
                stream.playback_origin = first = now
            worst = max(worst, now - stream.underrun_at) if stream.decoded else worst
            stream.decoded += batch.frames
    return first, worst, chunks / count


@pytest.mark.parametrize(("count", "slowness"), [(1, 4), (2, 3), (4, 2), (6, 1.5), (8, 1)])
def test_concurrent_streams_do_not_underrun(count, slowness):
    """A batch takes 3 ms plus 5 ms per frame, like the pocket checkpoint on a CPU, times ``slowness``."""
    schedule = Schedule(first_frames=1, max_chunk_frames=12, max_batch_frames=24, lead=0.24)
    _, late, _ = simulate(
        schedule, count, 0.01 * slowness, lambda streams, frames: slowness * (0.003 + 0.005 * streams * frames)
    )
    assert late < 0


def gpu_batch_takes(streams, frames):
    """A batch takes 1 ms plus 0.02 ms per frame, like the 1.7B checkpoint on an H200, with the overhead of Python."""
    return 0.001 + 0.00002 * streams * frames


@pytest.mark.parametrize(("count", "step"), [(1, 0.005), (64, 0.01), (256, 0.02), (400, 0.03)])
def test_on_a_gpu_all_first_chunks_are_sent_together_and_no_stream_underruns(count, step):
    schedule = Schedule.from_config(Code2WavConfig(), padded=True)
    first, late, _ = simulate(schedule, count, step, gpu_batch_takes)
    assert first < 0.002 + 0.00004 * count
    assert late < -0.04


def test_a_padded_batch_may_have_any_number_of_streams():
    schedule = Schedule(first_frames=1, max_chunk_frames=8, max_batch_frames=256, lead=0.24, padded=True)
    streams = {number: progress(pending=1) for number in range(300)}
    assert len(schedule.next_batch(dict(list(streams.items())[:37]), NOW).streams) == 37
    assert len(schedule.next_batch(streams, NOW).streams) == 256
    for stream in streams.values():
        stream.pending, stream.decoded, stream.playback_origin = 8, 20, NOW
    assert schedule.next_batch(streams, NOW) == Batch(list(range(32)), 8)


GPU = Schedule(first_frames=1, max_chunk_frames=12, max_batch_frames=256, lead=0.24, padded=True)


def test_on_a_gpu_a_first_chunk_does_not_cut_the_audio_of_other_streams():
    streams = {number: progress(pending=12, made=20, playback_origin=NOW) for number in range(8)}
    streams[8] = progress(pending=1)
    assert GPU.next_batch(streams, NOW) == Batch([8], 1)
    del streams[8]
    assert GPU.next_batch(streams, NOW) == Batch(list(range(8)), 12)


def test_on_a_gpu_streams_that_begin_all_the_time_do_not_raise_the_number_of_chunks():
    alone = simulate(GPU, 1, 0.005, gpu_batch_takes)[2]
    _, late, among_others = simulate(GPU, 300, 0.005, gpu_batch_takes, start_every=0.006)
    assert alone <= among_others < alone + 2
    assert late < 0


def test_on_a_gpu_a_chunk_has_all_frames_that_have_arrived():
    assert GPU.next_batch({1: progress(pending=9, made=1, playback_origin=NOW)}, NOW) == Batch([1], 8)


def test_on_a_gpu_the_second_chunk_waits_for_several_frames_as_long_as_the_client_has_audio():
    stream = progress(pending=3, made=1, playback_origin=NOW)
    assert GPU.next_batch({1: stream}, NOW) is None
    urgent = GPU.next_due({1: stream}, NOW)
    assert NOW < urgent < NOW + FRAME_SECONDS
    assert GPU.next_batch({1: stream}, urgent) == Batch([1], 3)
    stream.pending = 4
    assert GPU.next_batch({1: stream}, NOW) == Batch([1], 4)
    assert GPU.next_batch({1: progress(pending=1, made=1, playback_origin=NOW, ended=True)}, NOW) == Batch([1], 1)


def test_the_last_frames_of_a_stream_do_not_wait():
    for schedule in (SCHEDULE, GPU):
        streams = {1: progress(pending=3, made=50, playback_origin=NOW)}
        assert schedule.next_batch(streams, NOW) is None
        streams[1].ended = True
        assert schedule.next_batch(streams, NOW) == Batch([1], 3)


def test_without_streams_there_is_no_deadline():
    assert idle_until({}) == inf
