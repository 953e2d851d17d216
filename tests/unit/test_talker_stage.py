"""The talker's loop, a turn at a time: what it keeps, and when it says nothing."""

from types import SimpleNamespace

from engine.protocol.request import FinishReason
from engine.talker.base import TalkerOutput
from engine.talker.requests import PreparedUtterance, TextDelta
from engine.talker.stage import TalkerStage


class Intake:
    """Intents, a list a turn; when there are no more the client is gone."""

    def __init__(self, *turns):
        self._turns = list(turns)

    @property
    def alive(self):
        return bool(self._turns)

    def take(self):
        return self._turns.pop(0)


class Frames:
    """A link on which nobody has said anything yet; ``sent``: what goes out."""

    alive = True

    def __init__(self):
        self.sent = []

    def receive(self):
        return []

    def without_credit(self):
        return frozenset()

    def open(self, stream, payload):
        self.sent.append(("open", stream))

    def send_all(self, data):
        self.sent.append(("frames", len(list(data))))

    def end(self, stream, payload):
        self.sent.append(("end", stream))

    def fail(self, stream, payload):
        self.sent.append(("fail", stream))


class Talker:
    """Refuses whatever comes, or ends it at once without a frame."""

    free_slots = 1

    def __init__(self, *, refuses):
        self._refuses, self._streams = refuses, []

    def admit(self, stream, prompt, sampling, *, text_open):
        if self._refuses:
            raise RuntimeError("no memory")
        self._streams.append(stream)

    def cancel(self, stream):
        pass

    def runnable(self, held):
        return True

    def step(self, held):
        ended, self._streams = self._streams, []
        return [TalkerOutput(stream, None, FinishReason.STOP) for stream in ended]


def utterance(stream):
    return PreparedUtterance(stream, SimpleNamespace(input_tokens=3), None, realtime=True, context=None, live=True)


def played(talker, *turns):
    frames = Frames()
    stage = TalkerStage(talker, Intake(*turns), frames=frames, wakeup=None)
    stage.run()
    return stage, frames.sent


def test_text_that_came_early_is_not_kept_for_an_utterance_that_is_refused():
    stage, sent = played(
        Talker(refuses=True), [utterance(1), TextDelta(1, [5, 6], last=False)], [TextDelta(1, [7], last=True)]
    )
    assert sent == [("open", 1), ("fail", 1)]
    assert not stage._early_text


def test_a_step_that_drew_nothing_sends_no_frames():
    _, sent = played(Talker(refuses=False), [], [utterance(1)], [])
    assert sent == [("open", 1), ("end", 1)]
