"""Requests are parsed in a thread of their own: in order, each handed over at once, and errors reach the stage."""

import threading

import pytest

from engine.protocol.messages import RequestKind, pack_request
from engine.protocol.request import SamplingParams, SpeechRequest
from engine.talker.request_thread import RequestThread
from engine.talker.requests import Abort, PreparedUtterance, Probe, RequestReader
from engine.transfer import Wakeup, pair

TIMEOUT = 20


class NoEncoder:
    """Encodes nothing."""

    def submit(self, stream, payload):
        raise AssertionError("nothing here encodes")

    def abort(self, stream):
        pass

    def stats(self):
        return {"reference_hits": 3}


class Stage:
    """Both sides of a request link, a thread that reads it, and the stage's wakeup."""

    def __init__(self, checkpoint):
        client, own = pair(window=8)
        requests, self.wakeup = Wakeup(), Wakeup()
        self.link, self.client = own.attach(requests), client.attach(Wakeup())
        self.reader = RequestReader(self.link, checkpoint, 512, NoEncoder())
        self.thread = RequestThread(self.reader, requests, self.wakeup)

    def wait_for(self, predicate):
        assert self.wakeup.wait_for(predicate, TIMEOUT)

    def take(self, count):
        intents = []
        while len(intents) < count:
            self.wait_for(self.thread.pending)
            intents += self.thread.take()
        return intents

    def close(self):
        self.client.close()
        self.link.close()


@pytest.fixture
def stage(opened):
    one = Stage(opened["0b6-custom_voice"])
    yield one
    one.close()


def speech(text="Hello world"):
    request = SpeechRequest(text, speaker="ryan", sampling=SamplingParams(seed=1))
    return pack_request(RequestKind.SPEECH, request.to_bytes())


def test_requests_arrive_parsed_and_in_order(stage):
    stage.client.open(1, speech())
    stage.client.open(2, speech("one two"))
    stage.client.end(1)
    stage.client.open(3, pack_request(RequestKind.PROBE))
    intents = stage.take(4)
    assert [(type(each), each.stream) for each in intents] == [
        (PreparedUtterance, 1),
        (PreparedUtterance, 2),
        (Abort, 1),
        (Probe, 3),
    ]
    assert not stage.thread.pending()
    assert stage.thread.stats() == {"reference_hits": 3}


def test_a_request_is_handed_over_while_the_next_one_is_parsed(stage, monkeypatch):
    parse, parsing_second, release = stage.reader._parse, threading.Event(), threading.Event()

    def slow_parse(record):
        if record.stream == 2:
            parsing_second.set()
            assert release.wait(TIMEOUT)
        return parse(record)

    monkeypatch.setattr(stage.reader, "_parse", slow_parse)
    assert not stage.thread.expects()
    stage.client.open(1, speech())
    stage.client.open(2, speech())
    assert [each.stream for each in stage.take(1)] == [1]
    assert parsing_second.wait(TIMEOUT)
    assert not stage.thread.pending()
    assert stage.thread.expects()
    release.set()
    assert [each.stream for each in stage.take(1)] == [2]


def test_an_announced_request_is_expected_until_it_arrives(stage, monkeypatch):
    monkeypatch.setattr("engine.talker.requests._ANNOUNCED_S", 60)
    stage.client.announce()
    assert stage.thread.expects()
    stage.client.open(1, speech())
    assert [each.stream for each in stage.take(1)] == [1]
    assert not stage.reader.announced()
    stage.client.announce()
    monkeypatch.setattr("engine.talker.requests._ANNOUNCED_S", 0)
    assert not stage.reader.announced()


def test_an_unexpected_error_is_raised_in_the_stage(stage, monkeypatch):
    def broken(record):
        raise RuntimeError("the parser is broken")

    monkeypatch.setattr(stage.reader, "_parse", broken)
    stage.client.open(1, speech())
    stage.wait_for(stage.thread.pending)
    with pytest.raises(RuntimeError, match="parser is broken"):
        stage.thread.take()


def test_the_stage_is_woken_when_the_client_disconnects(stage):
    stage.client.close()
    stage.wait_for(lambda: not stage.thread.alive)
