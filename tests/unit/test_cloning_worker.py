"""The cloning worker answers every request and batches the waiting ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from engine.checkpoint.folder import open_checkpoint
from engine.cloning.encoder import ReferenceEncoder, cache_key
from engine.cloning.worker import CloningWorker
from engine.errors import EngineError, EngineFailed, RequestError
from engine.protocol.messages import EncodeRequest, unpack_voice
from engine.protocol.request import Voice
from engine.transfer import Endpoint, Kind, Wakeup, pair
from tests.support.reference_voices import assert_same_vector, recording

TIMEOUT = 20
MAX_BATCH = 3


class StubEncoder:
    """An encoder whose embedding is the recording's first sample. Negative samples are refused; 13 raises an error.

    batches: the samples of each batch. encode_all blocks until ``go_on`` is set. known: cached voices.
    """

    hits, misses = 5, 7

    def __init__(self) -> None:
        self.batches: list[list[float]] = []
        self.known: dict[bytes, Voice] = {}
        self.busy, self.go_on = threading.Event(), threading.Event()

    def cached(self, key: bytes) -> Voice | None:
        return self.known.get(key)

    def batch_size(self, requests: list[EncodeRequest]) -> int:
        return min(MAX_BATCH, len(requests))

    def encode_all(self, requests: list[EncodeRequest]) -> list[Voice | RequestError]:
        numbers = [float(request.samples[0]) for request in requests]
        self.batches.append(numbers)
        self.busy.set()
        assert self.go_on.wait(TIMEOUT)
        if 13 in numbers:
            raise RuntimeError("the GPU is on fire")
        voices = {cache_key(each): Voice(each.samples[:1]) for each in requests if each.samples[0] >= 0}
        self.known.update(voices)
        return [voices.get(cache_key(each), RequestError("no")) for each in requests]

    def speaker(self, name: str) -> Voice:
        if name != "anna":
            raise RequestError(f"there is no voice {name!r}", code="voice_not_found")
        return Voice(np.ones(2, np.float32))


class Client:
    """Receives the worker's answers: the embedding of the voice, or the error."""

    def __init__(self, endpoint: Endpoint, wakeup: Wakeup) -> None:
        self.answers: dict[int, list[float] | EngineError] = {}
        self.order: list[int] = []
        self._endpoint, self._wakeup = endpoint, wakeup

    def receive(self, count: int) -> None:
        def enough() -> bool:
            for record in self._endpoint.receive():
                if record.kind is Kind.END:
                    self.answers[record.stream] = unpack_voice(record.payload).embedding.tolist()
                elif record.kind is Kind.FAIL:
                    self.answers[record.stream] = EngineError.from_bytes(record.payload)
                else:
                    continue
                self.order.append(record.stream)
            return len(self.order) >= count

        assert self._wakeup.wait_for(enough, TIMEOUT)


@pytest.fixture
def link() -> Iterator[tuple[Endpoint, Client]]:
    near, far = pair(window=1)
    wakeup = Wakeup()
    with near.attach(Wakeup()) as requests, far.attach(wakeup) as answers:
        yield requests, Client(answers, wakeup)


@pytest.fixture
def busy(link: tuple[Endpoint, Client]) -> tuple[CloningWorker, StubEncoder, Client]:
    """A worker that encodes recording 0 for stream 100 and blocks until its encoder may go on."""
    requests, client = link
    encoder = StubEncoder()
    worker = CloningWorker(encoder, requests)
    worker.submit(100, encode_request(0))
    assert encoder.busy.wait(TIMEOUT)
    return worker, encoder, client


def encode_request(number: float) -> bytes:
    return EncodeRequest(np.full(4, number, np.float32), codes=False).to_bytes()


def test_waiting_requests_are_batched_and_answered_in_order(busy):
    worker, encoder, client = busy
    for stream in range(1, 6):
        worker.submit(stream, encode_request(stream))
    encoder.go_on.set()
    client.receive(6)
    assert encoder.batches == [[0], [1, 2, 3], [4, 5]]
    assert client.order == [100, 1, 2, 3, 4, 5]
    assert client.answers == {100: [0], **{stream: [stream] for stream in range(1, 6)}}
    assert worker.stats() == {"reference_hits": 5, "reference_misses": 7}


def test_a_refused_recording_fails_alone_with_its_own_error(busy):
    worker, encoder, client = busy
    for stream, number in ((1, 1), (2, -2), (3, 3)):
        worker.submit(stream, encode_request(number))
    encoder.go_on.set()
    client.receive(4)
    assert isinstance(client.answers[2], RequestError)
    assert (client.answers[1], client.answers[3]) == ([1], [3])


def test_a_failed_batch_does_not_affect_the_next_one(busy, caplog):
    worker, encoder, client = busy
    for stream, number in ((1, 1), (2, 13), (3, 3), (4, 4)):
        worker.submit(stream, encode_request(number))
    encoder.go_on.set()
    client.receive(5)
    for stream in (1, 2, 3):
        assert client.answers[stream].message == "encoding the reference failed: the GPU is on fire"
    assert client.answers[4] == [4]
    assert "answering 3 requests for voices failed" in caplog.text


@pytest.mark.parametrize("payload", [b"", b"\x01abc"])
def test_a_malformed_request_fails_alone(busy, payload):
    worker, encoder, client = busy
    worker.submit(1, encode_request(1))
    worker.submit(2, payload)
    worker.submit(3, encode_request(3))
    encoder.go_on.set()
    client.receive(4)
    assert isinstance(client.answers[2], EngineFailed)
    assert client.answers[2].message.startswith("the reference recording is malformed: ")
    assert (client.answers[1], client.answers[3]) == ([1], [3])


def test_cached_voices_are_answered_before_anything_is_encoded(busy):
    """Wherever they are in the queue, and whatever happens to the batch they would have been in."""
    worker, encoder, client = busy
    for stream, number in enumerate([0, 13, 1, 0, 2, 1], 1):
        worker.submit(stream, encode_request(number))
    encoder.go_on.set()
    client.receive(7)
    assert client.order == [100, 1, 4, 2, 3, 5, 6]
    assert encoder.batches == [[0], [13, 1, 2], [1]]
    assert (client.answers[1], client.answers[4], client.answers[6]) == ([0], [0], [1])


def test_a_voice_encoded_by_the_previous_batch_is_not_encoded_again(busy):
    worker, encoder, client = busy
    for stream, number in enumerate([1, 2, 3, 4, 1, 5, 2], 1):
        worker.submit(stream, encode_request(number))
    encoder.go_on.set()
    client.receive(8)
    assert encoder.batches == [[0], [1, 2, 3], [4, 5]]
    assert client.order == [100, 1, 2, 3, 5, 7, 4, 6]


def test_aborted_recordings_are_not_encoded(busy):
    worker, encoder, client = busy
    for stream in range(1, 6):
        worker.submit(stream, encode_request(stream))
    for stream in (1, 3):
        worker.abort(stream)
    encoder.go_on.set()
    client.receive(6)
    assert encoder.batches == [[0], [2, 4, 5]]
    assert [client.answers[stream].code for stream in (1, 3)] == ["aborted"] * 2


def test_speakers_are_answered_in_the_order_of_requests(busy):
    worker, encoder, client = busy
    worker.submit(1, encode_request(1))
    worker.submit_speaker(2, "anna")
    worker.submit_speaker(3, "nobody")
    worker.submit(4, encode_request(4))
    encoder.go_on.set()
    client.receive(5)
    assert client.order == [100, 1, 2, 3, 4]
    assert client.answers[2] == [1, 1]
    assert client.answers[3].code == "voice_not_found"
    assert encoder.batches == [[0], [1], [4]]


def test_a_batched_voice_equals_the_voice_encoded_alone(link, checkpoints):
    """Uses the batches of a GPU, on a CPU."""
    requests, client = link
    encoder, alone = (
        ReferenceEncoder(open_checkpoint(str(checkpoints["0b6-base"])), torch.device("cpu")) for _ in "ab"
    )
    encoder.capture()
    lengths = {1: 24_000, 2: 9_999, 3: 5, 4: 24_000, 5: 50_000}
    requests_by_stream = {
        stream: EncodeRequest(recording(length), codes=stream % 2 == 0) for stream, length in lengths.items()
    }
    worker = CloningWorker(encoder, requests)
    for stream, request in requests_by_stream.items():
        worker.submit(stream, request.to_bytes())
    client.receive(len(requests_by_stream))
    assert client.answers.pop(3).code == "reference_too_short"
    for stream, embedding in client.answers.items():
        assert_same_vector(np.array(embedding, np.float32), alone.encode(requests_by_stream[stream]).embedding)
    assert worker.stats() == {"reference_hits": 0, "reference_misses": 5}


def test_without_captured_batches_recordings_are_encoded_one_by_one(checkpoints):
    encoder = ReferenceEncoder(open_checkpoint(str(checkpoints["0b6-base"])), torch.device("cpu"))
    assert encoder.batch_size([EncodeRequest(recording(9_000), codes=False)] * 4) == 1
