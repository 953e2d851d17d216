"""The vLLM talker returns frames one step late, in order, and only to their own streams; the core is a stub."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from engine.config import TalkerConfig
from engine.device.first_frame import FirstFrameSlot
from engine.prompt.builder import NO_TOKEN, Prompt
from engine.protocol.request import FinishReason
from engine.talker.base import Sampling
from engine.talker.sampling_params import CodebookParams
from engine.talker.vllm.scheduler import CacheSize, Scheduler
from engine.talker.vllm.talker import VllmTalker
from tests.support.talkers import outputs

EOS = 9_999
SAMPLING = Sampling(CodebookParams(temperature=0.0), CodebookParams(temperature=0.0), 90, 1)
SLOTS = 3


class StubCore:
    """The codes of a frame are its number. ``last``: the number in whose place an utterance stops."""

    def __init__(self, last=1000):
        self.scheduler = Scheduler(SLOTS, 20, CacheSize(100, 4, 120))
        self.last, self.utterances, self.fails = last, {}, False

    def join(self, slot, utterance):
        self.utterances[slot] = utterance

    def leave(self, slot):
        del self.utterances[slot]

    def launch(self, batch):
        if self.fails:
            raise RuntimeError("the device is broken")
        lengths = np.array([len(self.utterances[slot].prompt.text) for slot in batch.slots])
        numbers = (batch.starts + batch.counts - lengths)[batch.samples]
        codes = np.where(numbers == self.last, EOS, numbers)
        return StubCodes(np.repeat(codes[:, None], 16, 1).astype(np.int16))


class StubCodes:
    done = False

    def __init__(self, codes):
        self.codes = codes

    def first_frame(self, stream, row):
        return stream, int(self.codes[row, 0])

    def collect(self):
        return self.codes


def prompt(text, rows=4):
    ids = np.full(rows, 7, np.int64)
    return Prompt(ids, ids, None, NO_TOKEN, None, NO_TOKEN, list(range(text)), rows)


@pytest.fixture
def core():
    return StubCore()


@pytest.fixture
def talker(core):
    return VllmTalker(core, TalkerConfig(slots=SLOTS, context=120), eos=EOS)


def run(talker, steps, paused=frozenset()):
    """stream -> the numbers returned in ``steps`` steps."""
    numbers = {}
    for _ in range(steps):
        for stream, codes in zip(*talker.step(paused)[:2], strict=True):
            numbers.setdefault(stream, []).append(int(codes[0]))
    return numbers


def test_the_first_frame_of_a_single_utterance_is_handed_over(talker):
    talker.first_frame_slot = FirstFrameSlot()
    talker.admit(1, prompt(3), SAMPLING)
    talker.step(frozenset())
    assert talker.first_frame_slot.frame == (1, 0)
    talker.step(frozenset())
    talker.admit(2, prompt(3), SAMPLING)
    talker.step(frozenset())
    assert talker.first_frame_slot.frame == (2, 0)


def test_other_frames_are_not_handed_over(talker):
    talker.first_frame_slot = FirstFrameSlot()
    for stream in (1, 2):
        talker.admit(stream, prompt(3), SAMPLING)
    run(talker, 4)
    assert talker.first_frame_slot.frame is None


def test_a_paused_stream_gets_the_frame_in_flight_and_then_misses_nothing(talker):
    for stream in (1, 2):
        talker.admit(stream, prompt(3), SAMPLING)
    assert run(talker, 4) == {1: [0, 1, 2], 2: [0, 1, 2]}
    assert run(talker, 5, paused=frozenset({1})) == {1: [3], 2: [3, 4, 5, 6, 7]}
    assert run(talker, 4) == {1: [4, 5, 6], 2: [8, 9, 10, 11]}


def test_if_all_streams_are_paused_there_is_nothing_to_run(talker):
    talker.admit(1, prompt(3), SAMPLING)
    run(talker, 3)
    run(talker, 2, paused=frozenset({1}))
    assert not talker.runnable(frozenset({1}))
    assert talker.runnable(frozenset())


def test_an_utterance_pauses_until_the_text_of_its_next_frame_is_known(talker):
    talker.admit(1, prompt(2), SAMPLING, text_open=True)
    talker.admit(2, prompt(2), SAMPLING)
    assert run(talker, 8) == {1: [0, 1, 2], 2: [0, 1, 2, 3, 4, 5, 6]}
    talker.append_text(1, [5], last=False)
    assert run(talker, 4)[1] == [3]
    talker.append_text(1, [], last=True)
    assert run(talker, 4)[1] == [4, 5, 6]


def test_an_utterance_that_stops_frees_its_slot_and_drops_the_frame_after_its_end(core, talker):
    core.last = 2
    talker.admit(1, prompt(3), SAMPLING)
    everything = []
    while talker.runnable(frozenset()):
        everything += outputs(talker.step(frozenset()))
    assert [None if each.codes is None else int(each.codes[0]) for each in everything] == [0, 1, None]
    assert everything[-1].finish is FinishReason.STOP
    assert (talker.free_slots, core.utterances) == (SLOTS, {})


def test_the_last_code_of_the_limit_is_not_a_frame(talker):
    talker.admit(1, prompt(3), replace(SAMPLING, max_new_tokens=3))
    everything = [each for _ in range(5) for each in outputs(talker.step(frozenset()))]
    assert [each.finish for each in everything] == [None, None, FinishReason.LENGTH]


def test_a_slot_that_is_cancelled_and_reused_gets_no_frame_of_the_earlier_stream(core, talker):
    for stream in (1, 2, 3):
        talker.admit(stream, prompt(3), SAMPLING)
    run(talker, 4)
    talker.cancel(2)
    talker.cancel(2)
    assert talker.free_slots == 1
    talker.admit(4, prompt(3), SAMPLING)
    numbers = run(talker, 3)
    assert numbers == {1: [3, 4, 5], 3: [3, 4, 5], 4: [0, 1]}


def test_cancelling_a_paused_stream_leaves_nothing(core, talker):
    talker.admit(1, prompt(3), SAMPLING, text_open=True)
    run(talker, 2)
    run(talker, 2, paused=frozenset({1}))
    talker.cancel(1)
    talker.append_text(1, [4], last=True)
    assert (talker.free_slots, core.utterances) == (SLOTS, {})
    assert not talker.runnable(frozenset())


def test_after_a_failed_step_cached_prompts_are_computed_again(core, talker):
    talker.admit(1, prompt(3, rows=9), SAMPLING)
    core.fails = True
    with pytest.raises(RuntimeError, match="broken"):
        talker.step(frozenset())
    core.fails = False
    talker.cancel(1)
    slot_rows = []
    launch = core.launch
    core.launch = lambda batch: slot_rows.append(batch.counts.tolist()) or launch(batch)
    talker.admit(2, prompt(3, rows=9), SAMPLING)
    run(talker, 2)
    assert slot_rows[0] == [9]


class SlowCodes(StubCodes):
    """The codes of a step that takes ``SECONDS`` on a clock of its own."""

    def __init__(self, codes, clock):
        super().__init__(codes)
        self.clock = clock
        self.ends = max(clock.now, clock.free_at) + SECONDS
        clock.free_at = self.ends

    @property
    def done(self):
        return self.clock.now >= self.ends

    def collect(self):
        self.clock.now = max(self.clock.now, self.ends)
        return self.codes


SECONDS = 0.01


def no_request():
    return False


def a_request():
    return True


@pytest.fixture
def clock(core, monkeypatch):
    """The time of the talker, in which each step takes ``SECONDS``."""
    clock = SimpleNamespace(now=100.0, free_at=0.0)
    launch = core.launch
    monkeypatch.setattr(core, "launch", lambda batch: SlowCodes(launch(batch).codes, clock))
    monkeypatch.setattr("engine.talker.vllm.talker.time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_a_step_is_due_shortly_before_the_one_in_flight_ends(talker, clock):
    talker.admit(1, prompt(5), SAMPLING)
    run(talker, 2)
    for _ in range(5):
        clock.now += max(0.0, talker.step_due_in(no_request))
        talker.step(())
        assert talker.step_due_in(no_request) == 0
    for _ in range(15):
        clock.now += max(0.0, talker.step_due_in(no_request))
        talker.step(())
    assert 0.9 * SECONDS < talker.step_due_in(no_request) < SECONDS
    talker.cancel(1)
    talker.step(())
    assert not talker.runnable(())
    assert talker.step_due_in(no_request) == 0
    talker.admit(2, prompt(5), SAMPLING)
    talker.step(())
    assert talker.step_due_in(no_request) == 0


def test_after_first_codes_the_next_launch_leaves_code2wav_time_to_begin(talker, clock):
    talker.admit(1, prompt(5), SAMPLING)
    assert run(talker, 2) == {1: [0]}
    assert 0 < talker.step_due_in(no_request) < SECONDS / 2
    clock.now += talker.step_due_in(no_request)
    assert talker.step_due_in(no_request) == 0
    assert run(talker, 1) == {1: [1]}
    assert talker.step_due_in(no_request) == 0


def test_a_step_of_few_utterances_waits_for_an_expected_request_but_not_for_long(talker, clock):
    talker.admit(1, prompt(5), SAMPLING)
    run(talker, 3)
    began = clock.now
    while (wait := talker.step_due_in(a_request)) > 0:
        clock.now += wait
    assert clock.now - began == pytest.approx(0.0025)
    assert talker.step_due_in(no_request) == 0
    run(talker, 1)
    assert talker.step_due_in(a_request) > 0
    assert talker.step_due_in(no_request) == 0


def test_a_step_does_not_wait_beside_many_utterances_without_a_free_slot_or_after_first_codes(
    talker, clock, monkeypatch
):
    talker.admit(1, prompt(5), SAMPLING)
    run(talker, 1)
    assert talker.step_due_in(a_request) == 0, "its first codes would wait, too"
    run(talker, 2)
    assert talker.step_due_in(a_request) > 0
    with monkeypatch.context() as patch:
        patch.setattr("engine.talker.vllm.talker._FEW", 0)
        assert talker.step_due_in(a_request) == 0
    for stream in range(2, SLOTS + 1):
        talker.admit(stream, prompt(5), SAMPLING)
    run(talker, 3)
    assert talker.free_slots == 0
    assert talker.step_due_in(a_request) == 0


def test_a_wait_for_a_request_that_does_not_come_changes_no_later_launch(talker, clock):
    """The launch after the wait was late, but the steps take as long as before."""
    talker.admit(1, prompt(5), SAMPLING)
    for _ in range(20):
        clock.now += max(0.0, talker.step_due_in(no_request))
        talker.step(())
    clock.now += talker.step_due_in(no_request)
    while (wait := talker.step_due_in(a_request)) > 0:
        clock.now += wait
    talker.step(())
    assert talker.step_due_in(no_request) > 0.8 * SECONDS


def test_other_work_is_done_until_the_step_in_flight_has_ended(talker, clock):
    """Here it takes 0.3 steps each time."""
    done = []

    def work():
        done.append(clock.now)
        clock.now += 0.3 * SECONDS
        return True

    talker.admit(1, prompt(5), SAMPLING)
    talker.step((), work)
    assert not done, "no step before is in flight"
    talker.step((), work)
    assert len(done) == 4


def test_a_step_waits_when_there_is_no_other_work(talker, clock):
    asked = []

    def nothing():
        asked.append(clock.now)
        return False

    talker.admit(1, prompt(5), SAMPLING)
    run(talker, 1)
    assert outputs(talker.step((), nothing))
    assert len(asked) == 1
