"""The records of the request link become utterances and other intents, in order and one at a time."""

import random
from dataclasses import replace

import numpy as np
import pytest

from engine.checkpoint.config import GenerationDefaults
from engine.prompt.builder import build_prompt
from engine.prompt.tokenizer import TextTokenizer
from engine.protocol.messages import RequestKind, pack_request, pack_text_delta
from engine.protocol.request import SamplingParams, SpeechRequest, Voice
from engine.talker.requests import Abort, PreparedUtterance, Probe, Rejection, RequestReader, TextDelta, resolve
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


class CountedTokenizer:
    """Counts the calls of the tokenizers library, and the texts of those with several."""

    def __init__(self, tokenizer):
        self.tokenizer, self.alone, self.together = tokenizer, 0, []

    def encode(self, text, **options):
        self.alone += 1
        return self.tokenizer.encode(text, **options)

    def encode_batch_fast(self, texts, **options):
        self.together.append(len(texts))
        return self.tokenizer.encode_batch_fast(texts, **options)


@pytest.fixture
def counted(request, opened, checkpoints):
    """A request link, whose reader counts, for the checkpoint that is the parameter."""
    tokenizer = TextTokenizer(checkpoints[request.param])
    tokenizer._tokenizer = CountedTokenizer(tokenizer._tokenizer)
    both = Requests(replace(opened[request.param], tokenizer=tokenizer))
    both.calls = tokenizer._tokenizer
    yield both
    both.close()


def assert_same_prompt(prompt, request, checkpoint):
    expected = build_prompt(request, checkpoint.model, checkpoint.tokenizer, checkpoint.profile.text_layout)
    assert prompt.text.tolist() == expected.text.tolist()
    assert prompt.trailing == expected.trailing
    assert prompt.input_tokens == expected.input_tokens


@pytest.mark.parametrize("counted", ["1b7-custom_voice"], indirect=True)
def test_texts_of_requests_that_arrive_together_are_tokenized_in_one_call(counted, opened):
    requests = [
        SpeechRequest(f"Number {index}.", speaker="ryan", instructions="Speak slowly." if index % 2 else None)
        for index in range(20)
    ]
    for stream, request in enumerate(requests):
        counted.client.open(stream, pack_request(RequestKind.SPEECH, request.to_bytes()))
    for request in requests:
        assert_same_prompt(counted.reader.take().prompt, request, opened["1b7-custom_voice"])
    assert (counted.calls.alone, counted.calls.together) == (0, [30])


@pytest.mark.parametrize("counted", ["0b6-base"], indirect=True)
def test_only_the_texts_of_the_prompt_are_tokenized(counted, opened):
    base = opened["0b6-base"]
    embedding = np.zeros(base.model.speaker_encoder.width, np.float32)
    codes = np.zeros((3, base.model.talker.codebooks), np.int64)
    requests = [
        SpeechRequest("By x-vector.", voice=Voice(embedding, None, "Not in the prompt."), instructions="Neither."),
        SpeechRequest("In context.", voice=Voice(embedding, codes, "Said before.")),
    ]
    for stream, request in enumerate(requests):
        counted.client.open(stream, pack_request(RequestKind.SPEECH, request.to_bytes()))
    for request in requests:
        assert_same_prompt(counted.reader.take().prompt, request, base)
    assert (counted.calls.alone, counted.calls.together) == (0, [3])


@pytest.mark.parametrize("counted", ["0b6-custom_voice"], indirect=True)
@pytest.mark.parametrize(("words", "number", "together"), [(1, 40, [32, 8]), (1000, 6, [3, 3]), (5000, 2, [1, 1])])
def test_few_long_texts_are_tokenized_together(counted, words, number, together):
    for stream in range(number):
        counted.client.open(stream, speech("word " * words))
    assert [counted.reader.take().stream for _ in range(number)] == list(range(number))
    assert (counted.calls.alone, counted.calls.together) == (0, together)


def test_requests_that_arrive_together_are_taken_in_order_whatever_they_are(requests):
    live = SpeechRequest("Hello wor", speaker="ryan", live=True)
    requests.client.open(1, speech("first"))
    requests.client.open(2, pack_request(RequestKind.SPEECH, live.to_bytes()))
    requests.client.send(2, pack_text_delta("ld again", last=True), 0)
    requests.client.open(3, speech("\ud800"))
    requests.client.open(4, speech(" "))
    requests.client.open(5, speech("first"))
    requests.client.end(1)
    taken = [requests.reader.take() for _ in range(7)]
    kinds = [PreparedUtterance, PreparedUtterance, TextDelta, Rejection, Rejection, PreparedUtterance, Abort]
    assert [(type(each), each.stream) for each in taken] == list(zip(kinds, (1, 2, 2, 3, 4, 5, 1), strict=True))
    assert "unpaired surrogates" in str(taken[3].error)
    assert "only white space" in str(taken[4].error)
    assert taken[0].prompt.text.tolist() == taken[5].prompt.text.tolist()


def test_texts_are_tokenized_alone_where_tokenizing_them_together_fails(requests, opened, monkeypatch, caplog):
    def fail(_, texts):
        raise RuntimeError("an error of the library")

    monkeypatch.setattr(type(opened["0b6-custom_voice"].tokenizer), "encode_ahead", fail)
    requests.client.open(1, speech())
    assert isinstance(requests.reader.take(), PreparedUtterance)
    assert "tokenizing 1 requests together failed, so each is tokenized alone: an error of the library" in caplog.text


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
