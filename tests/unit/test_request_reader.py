"""The records of the request link become utterances and other intents, in order and one at a time."""

import random
from dataclasses import replace

import numpy as np
import pytest

from engine.checkpoint.config import GenerationDefaults
from engine.protocol.messages import RequestKind, pack_request
from engine.protocol.request import SamplingParams, SpeechRequest, Voice
from engine.talker.requests import Abort, PreparedUtterance, Probe, Rejection, RequestReader, resolve
from engine.transfer import Wakeup, pair


class NoEncoder:
    """Encodes nothing."""

    def submit(self, stream, payload):
        raise AssertionError("nothing here encodes")

    def abort(self, stream):
        pass

    def stats(self):
        return {"reference_hits": 3}


class Requests:
    """Both sides of a request link, and what reads it."""

    def __init__(self, checkpoint):
        client, own = pair(window=8)
        self.link, self.client = own.attach(Wakeup()), client.attach(Wakeup())
        self.reader = RequestReader(self.link, checkpoint, 512, NoEncoder())

    def close(self):
        self.client.close()
        self.link.close()


@pytest.fixture
def requests(opened):
    both = Requests(opened["0b6-custom_voice"])
    yield both
    both.close()


def speech(text="Hello world", **fields):
    request = SpeechRequest(text, **({"speaker": "ryan"} | fields), sampling=SamplingParams(seed=1))
    return pack_request(RequestKind.SPEECH, request.to_bytes())


def test_requests_are_parsed_in_order_one_at_a_time(requests):
    requests.client.open(1, speech())
    requests.client.open(2, speech("one two"))
    requests.client.end(1)
    assert requests.reader.pending()
    taken = [requests.reader.take()]
    requests.client.open(3, pack_request(RequestKind.PROBE))
    while requests.reader.pending():
        taken.append(requests.reader.take())
    assert [(type(each), each.stream) for each in taken] == [
        (PreparedUtterance, 1),
        (PreparedUtterance, 2),
        (Abort, 1),
        (Probe, 3),
    ]
    assert requests.reader.take() is None
    assert requests.reader.stats() == {"reference_hits": 3}


def test_requests_that_arrive_together_have_the_prompts_that_they_have_alone(requests, opened):
    texts = [f"Hello number {index}, this is the {'very ' * index}long text" for index in range(40)]
    payloads = [speech(text, instructions="Speak slowly." if index % 3 else None) for index, text in enumerate(texts)]
    payloads[7] = speech("\ud800")
    for stream, payload in enumerate(payloads, 1):
        requests.client.open(stream, payload)
    together = [requests.reader.take() for _ in payloads]
    for stream, payload in enumerate(payloads, 101):
        requests.client.open(stream, payload)
        alone, other = requests.reader.take(), together[stream - 101]
        assert other.stream == stream - 100
        if isinstance(alone, Rejection):
            assert (stream, str(other.error)) == (108, str(alone.error))
        else:
            assert other.prompt.text.tolist() == alone.prompt.text.tolist()
            assert other.prompt.input_tokens == alone.prompt.input_tokens


def test_requests_are_parsed_one_by_one_where_their_texts_cannot_be_tokenized_together(requests, opened, monkeypatch):
    def fail(_, texts):
        raise RuntimeError("an error of the library")

    monkeypatch.setattr(type(opened["0b6-custom_voice"].tokenizer), "encode_ahead", fail)
    requests.client.open(1, speech())
    assert isinstance(requests.reader.take(), PreparedUtterance)


@pytest.mark.parametrize("payload", [b"", b"\xff", pack_request(RequestKind.SPEAKER, b"\xff"), speech()[:-1]])
def test_a_malformed_request_is_rejected_and_the_next_one_is_parsed(requests, payload):
    requests.client.open(1, payload)
    requests.client.open(2, speech())
    assert [(type(each), each.stream) for each in (requests.reader.take(), requests.reader.take())] == [
        (Rejection, 1),
        (PreparedUtterance, 2),
    ]


def test_an_announced_request_is_expected_until_it_arrives(requests, monkeypatch):
    monkeypatch.setattr("engine.talker.requests._ANNOUNCED_S", 60)
    assert not requests.reader.announced()
    requests.client.announce()
    assert requests.reader.announced()
    requests.client.open(1, speech())
    assert not requests.reader.announced(), "it has arrived"
    assert requests.reader.take().stream == 1
    assert not requests.reader.announced()
    requests.client.announce()
    monkeypatch.setattr("engine.talker.requests._ANNOUNCED_S", 0)
    assert not requests.reader.announced()


@pytest.mark.parametrize(
    ("default", "requested", "streaming"),
    [(None, None, True), ("full", None, False), ("full", "streaming", True), ("streaming", "full", False)],
)
def test_a_request_that_chooses_no_layout_has_the_one_of_its_checkpoint(opened, default, requested, streaming):
    profile = replace(opened["pocket"].profile, text_layout=default)
    both = Requests(replace(opened["pocket"], profile=profile))
    voice = Voice(np.zeros(opened["pocket"].model.speaker_encoder.width, np.float32))
    both.client.open(1, speech(speaker=None, voice=voice, text_layout=requested))
    assert bool(both.reader.take().prompt.trailing) is streaming
    both.close()


def test_seeds_of_requests_without_one_differ_even_if_a_library_seeds_the_random_module():
    seeds = set()
    for _ in range(2):
        random.seed(0)
        seeds |= {resolve(SamplingParams(), GenerationDefaults()).seed for _ in range(2)}
    assert len(seeds) == 4
