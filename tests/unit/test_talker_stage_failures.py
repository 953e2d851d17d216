"""The talker's stage: failures fail only the requests they affect."""

import queue
import threading
from collections import deque

import numpy as np
import pytest

from engine.errors import EngineError
from engine.protocol.messages import RequestKind, StreamHeader, pack_request
from engine.protocol.request import FinishReason, SamplingParams, SpeechRequest
from engine.talker.base import StepOutput
from engine.talker.requests import RequestReader
from engine.talker.stage import TalkerStage
from engine.transfer import Kind, Wakeup, pair
from tests.support.record_collector import TIMEOUT, RecordCollector


class ScriptedTalker:
    """A talker with two slots that admits, steps or fails as scripted."""

    context = 512

    def __init__(self):
        self.streams = []
        self.failing_admissions = set()
        self.steps = deque()
        self.due_in = 0.0
        self.due_first = deque()
        self.admitted = queue.Queue()

    @property
    def free_slots(self):
        return 2 - len(self.streams)

    def admit(self, stream, prompt, sampling, *, text_open=False):
        if stream in self.failing_admissions:
            raise RuntimeError("no memory")
        self.streams.append(stream)
        self.admitted.put(stream)

    def append_text(self, stream, ids, *, last):
        raise AssertionError("nothing here sends text")

    def cancel(self, stream):
        if stream in self.streams:
            self.streams.remove(stream)

    def runnable(self, blocked):
        return any(stream not in blocked for stream in self.streams)

    def step_due_in(self, expects_request):
        return self.due_first.popleft() if self.due_first else self.due_in

    def step(self, blocked, other_work):
        if self.steps and self.steps.popleft() == "fail":
            raise RuntimeError("the device is broken")
        ending, self.streams = self.streams, []
        codes = np.zeros((len(ending), 16), np.int16)
        return StepOutput(ending, codes, [(stream, FinishReason.STOP) for stream in ending])


class StubVoiceWorker:
    def submit(self, stream, payload):
        raise AssertionError("nothing here encodes")

    def abort(self, stream):
        pass

    def stats(self):
        return {"reference_hits": 1, "reference_misses": 2}


@pytest.fixture
def talker_stage(opened):
    """A stage with a scripted talker: (talker, client end of its requests, its thread, collector of its frames)."""
    client, own_requests = pair(window=1)
    own_frames, code2wav = pair(window=8)
    wakeup, talker = Wakeup(), ScriptedTalker()
    requests, frames = own_requests.attach(wakeup), own_frames.attach(wakeup)
    reader = RequestReader(requests, opened["0b6-custom_voice"], talker.context, StubVoiceWorker())
    stage = TalkerStage(talker, reader, frames=frames, wakeup=wakeup)
    failures = []

    def run():
        try:
            stage.run()
        except RuntimeError as error:
            failures.append(error)
            frames.close()

    thread = threading.Thread(target=run)
    thread.failures = failures
    thread.start()
    with client.attach(Wakeup()) as requests_of_client:
        collector = RecordCollector(code2wav)
        yield talker, requests_of_client, thread, collector
        collector.end.close()
    thread.join(TIMEOUT)
    assert not thread.is_alive()
    requests.close()
    frames.close()


def request(text="Hello world"):
    request = SpeechRequest(text, speaker="ryan", sampling=SamplingParams(seed=1))
    return pack_request(RequestKind.SPEECH, request.to_bytes())


def test_an_utterance_that_cannot_be_admitted_fails_alone(talker_stage):
    talker, client, _, frames = talker_stage
    talker.failing_admissions.add(2)
    for stream in (1, 2, 3):
        client.open(stream, request())
    ended = frames.terminals(3)
    assert {stream: record.kind for stream, record in ended.items()} == {1: Kind.END, 2: Kind.FAIL, 3: Kind.END}
    assert "no memory" in EngineError.from_bytes(ended[2].payload).message


def test_a_failed_step_fails_the_running_utterances_only(talker_stage):
    talker, client, thread, frames = talker_stage
    talker.steps.append("fail")
    client.open(1, request())
    assert frames.terminals(1)[1].kind is Kind.FAIL
    client.open(2, request())
    assert frames.terminals(2)[2].kind is Kind.END
    assert thread.is_alive()


def test_a_device_that_keeps_failing_ends_the_stage(talker_stage):
    talker, client, thread, frames = talker_stage
    talker.steps.extend(["fail"] * 3)
    for stream in (1, 2, 3):
        client.open(stream, request())
        assert frames.terminals(stream)[stream].kind is Kind.FAIL
    thread.join(TIMEOUT)
    assert len(thread.failures) == 1


def test_what_arrives_before_a_step_is_due_is_handled_at_once_and_takes_part_in_it(talker_stage):
    talker, client, _, frames = talker_stage
    talker.due_in = 3600.0
    for stream in (1, 2):
        client.open(stream, request())
        assert talker.admitted.get(timeout=TIMEOUT) == stream
    assert talker.streams == [1, 2]
    frames.records += frames.end.receive()
    frames.end.cancel(1)
    assert frames.terminals(1)[1].kind is Kind.END
    talker.due_in = 0.0
    client.open(3, request())
    assert {stream: record.kind for stream, record in frames.terminals(3).items()} == dict.fromkeys((1, 2, 3), Kind.END)
    assert [record.kind for record in frames.records if record.stream == 1] == [Kind.OPEN, Kind.END]


def test_a_step_begins_when_it_is_due_although_nothing_arrives(talker_stage):
    talker, client, _, frames = talker_stage
    talker.due_first.append(0.02)
    client.open(1, request())
    assert frames.terminals(1)[1].kind is Kind.END
    assert not talker.due_first


def test_an_idle_stage_ends_when_its_client_disconnects(talker_stage):
    _, requests, thread, _ = talker_stage
    requests.close()
    thread.join(TIMEOUT)
    assert not thread.is_alive()


def test_a_probe_passes_through_an_idle_stage(talker_stage):
    _, client, _, frames = talker_stage
    client.open(7, pack_request(RequestKind.PROBE))
    assert frames.terminals(1)[7].kind is Kind.END
    [opening] = [record for record in frames.records if record.kind is Kind.OPEN]
    probe = StreamHeader.from_bytes(opening.payload).probe
    assert (probe["talker_slots"], probe["talker_waiting"], probe["talker_steps"]) == (0, 0, 0)
    assert (probe["reference_hits"], probe["reference_misses"]) == (1, 2)
    assert 0 <= probe["frames_ring_used"] < probe["frames_ring_size"]


def test_the_statistics_count_steps_and_rows(talker_stage):
    _, client, _, frames = talker_stage
    for stream in (1, 2, 3):
        client.open(stream, request())
    frames.terminals(3)
    client.open(7, pack_request(RequestKind.PROBE))
    frames.terminals(4)
    openings = {record.stream: record for record in frames.records if record.kind is Kind.OPEN}
    probe = StreamHeader.from_bytes(openings[7].payload).probe
    assert probe["talker_step_rows"] == 3
    assert 2 <= probe["talker_steps"] <= 3
