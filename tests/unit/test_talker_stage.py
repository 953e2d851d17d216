"""Single iterations of the talker's loop: what it keeps, and when it sends nothing."""

from types import SimpleNamespace

import numpy as np
import pytest

from engine.protocol.request import FinishReason
from engine.talker.base import StepOutput
from engine.talker.requests import Abort, PreparedUtterance, TextDelta
from engine.talker.stage import TalkerStage


class ScriptedRequests:
    """Intents, one list per iteration; afterwards the client is gone."""

    def __init__(self, *turns):
        self._turns = [list(turn) for turn in turns]

    @property
    def alive(self):
        return bool(self._turns)

    def announced(self):
        return True

    def pending(self):
        if self._turns[0]:
            return True
        self._turns.pop(0)
        return False

    def take(self):
        intent = self._turns[0].pop(0)
        if isinstance(intent, Exception):
            raise intent
        return intent


class Frames:
    """A link that receives nothing and records in ``sent`` what is sent."""

    alive = True

    def __init__(self):
        self.sent = []

    def receive(self):
        return []

    def without_credit(self):
        return frozenset()

    def open(self, stream, payload):
        self.sent.append(("open", stream))

    def send_rows(self, streams, rows):
        self.sent.append(("frames", len(streams)))

    def end(self, stream, payload):
        self.sent.append(("end", stream))

    def fail(self, stream, payload):
        self.sent.append(("fail", stream))


class Talker:
    """A talker that refuses every utterance, or ends it at once without a frame."""

    free_slots = 1

    def __init__(self, *, refuses):
        self._refuses, self._streams = refuses, []
        self.launched, self.expected = [], []

    def admit(self, stream, prompt, sampling, *, text_open):
        if self._refuses:
            raise RuntimeError("no memory")
        self._streams.append(stream)

    def cancel(self, stream):
        pass

    def runnable(self, blocked):
        return True

    def step_due_in(self, expects_request):
        self.expected.append(expects_request())
        return 0.0

    def step(self, blocked, other_work):
        self.launched.append(list(self._streams))
        ended, self._streams = self._streams, []
        return StepOutput([], np.zeros((0, 16), np.int16), [(stream, FinishReason.STOP) for stream in ended])


def utterance(stream):
    return PreparedUtterance(stream, SimpleNamespace(input_tokens=3), None, realtime=True, context=None, live=True)


def run_stage(talker, *turns):
    frames = Frames()
    stage = TalkerStage(talker, ScriptedRequests(*turns), frames=frames, wakeup=None)
    stage.run()
    return stage, frames.sent


def test_early_text_of_a_refused_utterance_is_dropped():
    stage, sent = run_stage(
        Talker(refuses=True), [utterance(1), TextDelta(1, [5, 6], last=False)], [TextDelta(1, [7], last=True)]
    )
    assert sent == [("open", 1), ("fail", 1)]
    assert not stage._early_text


def test_a_step_without_output_sends_no_frames():
    _, sent = run_stage(Talker(refuses=False), [], [utterance(1)], [])
    assert sent == [("open", 1), ("end", 1)]


def test_a_stream_is_announced_after_its_first_step_is_launched():
    talker, frames = Talker(refuses=False), Frames()
    launched = []
    frames.open = lambda stream, payload: launched.append(talker.launched[-1])
    TalkerStage(talker, ScriptedRequests([utterance(1)], []), frames=frames, wakeup=None).run()
    assert launched == [[1]]


def test_a_stream_that_is_aborted_at_once_is_announced_and_ended():
    _, sent = run_stage(Talker(refuses=False), [utterance(1), Abort(1)], [])
    assert sent == [("open", 1), ("end", 1)]


def test_the_talker_can_ask_whether_a_request_is_expected_before_a_step():
    talker = Talker(refuses=False)
    run_stage(talker, [utterance(1)])
    assert talker.expected == [True]


def test_requests_that_arrive_together_share_a_step():
    talker = Talker(refuses=False)
    run_stage(talker, [utterance(1), utterance(2), None, utterance(3)])
    assert talker.launched == [[1, 2, 3]]


def test_a_flood_of_requests_does_not_stop_the_steps(monkeypatch):
    monkeypatch.setattr("engine.talker.stage._PARSING_S", 0.0)
    monkeypatch.setattr("engine.talker.stage._PARSING_SHARE", 0.0)
    talker = Talker(refuses=False)
    run_stage(talker, [utterance(1), None, utterance(3)])
    assert talker.launched == [[1], [], [3], []]


def test_more_requests_are_parsed_after_a_long_step(monkeypatch):
    """Each step takes a second here, and each request a tenth of it."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("engine.talker.stage.time", SimpleNamespace(monotonic=lambda: clock.now))

    class Slow(Talker):
        def step(self, blocked, other_work):
            clock.now += 1.0
            return super().step(blocked, other_work)

        def admit(self, stream, prompt, sampling, *, text_open):
            self._streams.append(stream)

    class Parsed(ScriptedRequests):
        def take(self):
            clock.now += 0.1
            return super().take()

    talker = Slow(refuses=False)
    turn = [utterance(stream) for stream in range(1, 6)]
    TalkerStage(talker, Parsed(turn), frames=Frames(), wakeup=None).run()
    assert talker.launched[:2] == [[1], [2, 3, 4]]


class Parsing(Talker):
    """A talker that does all other work in its first step."""

    def __init__(self):
        super().__init__(refuses=False)
        self.cancelled = []

    def cancel(self, stream):
        self.cancelled.append((stream, len(self.launched)))

    def step(self, blocked, other_work):
        while not self.launched and other_work():
            pass
        return super().step(blocked, other_work)


def test_requests_are_parsed_while_a_step_runs_and_join_the_next_one():
    talker = Parsing()
    run_stage(talker, [utterance(1)], [utterance(2), utterance(3)], [])
    assert talker.launched[:2] == [[1], [2, 3]]


def test_what_is_parsed_while_a_step_runs_changes_nothing_before_its_end():
    talker = Parsing()
    _, sent = run_stage(talker, [utterance(1), utterance(2)], [Abort(3), utterance(3), Abort(3)], [])
    assert talker.launched[0] == [1, 2]
    assert talker.cancelled == [(3, 1)]
    assert sent[-2:] == [("open", 3), ("end", 3)]


def test_an_error_while_parsing_beside_a_step_is_not_one_of_the_step():
    talker = Parsing()
    frames = Frames()
    requests = ScriptedRequests([utterance(1)], [RuntimeError("the parser is broken"), utterance(2)], [])
    with pytest.raises(RuntimeError, match="parser is broken"):
        TalkerStage(talker, requests, frames=frames, wakeup=None).run()
    assert frames.sent == [("open", 1), ("end", 1)]
