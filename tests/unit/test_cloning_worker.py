"""Whoever asks for a voice is answered, by a desk that encodes together what waits."""

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

PATIENCE = 20
TOGETHER = 3


class Encoder:
    """Voices whose embedding is the recording's first sample; negative ones cannot be had, and 13 is a fault.

    batches: what was encoded together. The first waits until it may go on. known: what is at hand by now.
    """

    hits, misses = 5, 7

    def __init__(self) -> None:
        self.batches: list[list[float]] = []
        self.known: dict[bytes, Voice] = {}
        self.busy, self.go_on = threading.Event(), threading.Event()

    def cached(self, key: bytes) -> Voice | None:
        return self.known.get(key)

    def batch_size(self, requests: list[EncodeRequest]) -> int:
        return min(TOGETHER, len(requests))

    def encode_all(self, requests: list[EncodeRequest]) -> list[Voice | RequestError]:
        numbers = [float(request.samples[0]) for request in requests]
        self.batches.append(numbers)
        self.busy.set()
        assert self.go_on.wait(PATIENCE)
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
    """Hears the desk's answers: the voice's embedding, or the error."""

    def __init__(self, endpoint: Endpoint, wakeup: Wakeup) -> None:
        self.answers: dict[int, list[float] | EngineError] = {}
        self.order: list[int] = []
        self._endpoint, self._wakeup = endpoint, wakeup

    def hear(self, count: int) -> None:
        def heard() -> bool:
            for record in self._endpoint.receive():
                if record.kind is Kind.END:
                    self.answers[record.stream] = unpack_voice(record.payload).embedding.tolist()
                elif record.kind is Kind.FAIL:
                    self.answers[record.stream] = EngineError.from_bytes(record.payload)
                else:
                    continue
                self.order.append(record.stream)
            return len(self.order) >= count

        assert self._wakeup.wait_for(heard, PATIENCE)


@pytest.fixture
def link() -> Iterator[tuple[Endpoint, Client]]:
    near, far = pair(window=1)
    wakeup = Wakeup()
    with near.attach(Wakeup()) as requests, far.attach(wakeup) as answers:
        yield requests, Client(answers, wakeup)


@pytest.fixture
def busy(link: tuple[Endpoint, Client]) -> tuple[CloningWorker, Encoder, Client]:
    """A desk that encodes recording 0 for stream 100 until its encoder may go on."""
    requests, client = link
    encoder = Encoder()
    desk = CloningWorker(encoder, requests)
    desk.submit(100, asked(0))
    assert encoder.busy.wait(PATIENCE)
    return desk, encoder, client


def asked(number: float) -> bytes:
    return EncodeRequest(np.full(4, number, np.float32), codes=False).to_bytes()


def test_what_waits_is_encoded_together_and_answered_in_order(busy):
    desk, encoder, client = busy
    for stream in range(1, 6):
        desk.submit(stream, asked(stream))
    encoder.go_on.set()
    client.hear(6)
    assert encoder.batches == [[0], [1, 2, 3], [4, 5]]
    assert client.order == [100, 1, 2, 3, 4, 5]
    assert client.answers == {100: [0], **{stream: [stream] for stream in range(1, 6)}}
    assert desk.stats() == {"reference_hits": 5, "reference_misses": 7}


def test_one_that_fails_is_answered_alone_with_its_own_error(busy):
    desk, encoder, client = busy
    for stream, number in ((1, 1), (2, -2), (3, 3)):
        desk.submit(stream, asked(number))
    encoder.go_on.set()
    client.hear(4)
    assert isinstance(client.answers[2], RequestError)
    assert (client.answers[1], client.answers[3]) == ([1], [3])


def test_a_batch_that_cannot_be_encoded_fails_and_the_next_one_does_not(busy, caplog):
    desk, encoder, client = busy
    for stream, number in ((1, 1), (2, 13), (3, 3), (4, 4)):
        desk.submit(stream, asked(number))
    encoder.go_on.set()
    client.hear(5)
    for stream in (1, 2, 3):
        assert client.answers[stream].message == "encoding the reference failed: the GPU is on fire"
    assert client.answers[4] == [4]
    assert "answering 3 requests for voices failed" in caplog.text


@pytest.mark.parametrize("payload", [b"", b"\x01abc"])
def test_what_is_no_recording_fails_alone_and_the_stage_goes_on(busy, payload):
    desk, encoder, client = busy
    desk.submit(1, asked(1))
    desk.submit(2, payload)
    desk.submit(3, asked(3))
    encoder.go_on.set()
    client.hear(4)
    assert isinstance(client.answers[2], EngineFailed)
    assert client.answers[2].message.startswith("the reference recording is malformed: ")
    assert (client.answers[1], client.answers[3]) == ([1], [3])


def test_voices_at_hand_are_answered_before_anything_is_encoded(busy):
    """Wherever they are in the line, and whatever becomes of the batch that they would have been in."""
    desk, encoder, client = busy
    for stream, number in enumerate([0, 13, 1, 0, 2, 1], 1):
        desk.submit(stream, asked(number))
    encoder.go_on.set()
    client.hear(7)
    assert client.order == [100, 1, 4, 2, 3, 5, 6]
    assert encoder.batches == [[0], [13, 1, 2], [1]]
    assert (client.answers[1], client.answers[4], client.answers[6]) == ([0], [0], [1])


def test_a_voice_that_the_batch_before_has_made_is_not_encoded_again(busy):
    desk, encoder, client = busy
    for stream, number in enumerate([1, 2, 3, 4, 1, 5, 2], 1):
        desk.submit(stream, asked(number))
    encoder.go_on.set()
    client.hear(8)
    assert encoder.batches == [[0], [1, 2, 3], [4, 5]]
    assert client.order == [100, 1, 2, 3, 5, 7, 4, 6]


def test_nobody_waits_for_a_recording_that_was_withdrawn(busy):
    desk, encoder, client = busy
    for stream in range(1, 6):
        desk.submit(stream, asked(stream))
    for stream in (1, 3):
        desk.abort(stream)
    encoder.go_on.set()
    client.hear(6)
    assert encoder.batches == [[0], [2, 4, 5]]
    assert [client.answers[stream].code for stream in (1, 3)] == ["withdrawn"] * 2


def test_speakers_are_introduced_when_it_is_their_turn(busy):
    desk, encoder, client = busy
    desk.submit(1, asked(1))
    desk.submit_speaker(2, "anna")
    desk.submit_speaker(3, "nobody")
    desk.submit(4, asked(4))
    encoder.go_on.set()
    client.hear(5)
    assert client.order == [100, 1, 2, 3, 4]
    assert client.answers[2] == [1, 1]
    assert client.answers[3].code == "voice_not_found"
    assert encoder.batches == [[0], [1], [4]]


def test_what_is_encoded_together_is_what_it_is_alone(link, checkpoints):
    """In the batches of a GPU, on a CPU."""
    requests, client = link
    encoder, alone = (
        ReferenceEncoder(open_checkpoint(str(checkpoints["0b6-base"])), torch.device("cpu")) for _ in "ab"
    )
    encoder.capture()
    lengths = {1: 24_000, 2: 9_999, 3: 5, 4: 24_000, 5: 50_000}
    asked = {stream: EncodeRequest(recording(length), codes=stream % 2 == 0) for stream, length in lengths.items()}
    desk = CloningWorker(encoder, requests)
    for stream, request in asked.items():
        desk.submit(stream, request.to_bytes())
    client.hear(len(asked))
    assert client.answers.pop(3).code == "reference_too_short"
    for stream, embedding in client.answers.items():
        assert_same_vector(np.array(embedding, np.float32), alone.encode(asked[stream]).embedding)
    assert desk.stats() == {"reference_hits": 0, "reference_misses": 5}


def test_without_batches_recordings_are_encoded_one_by_one(checkpoints):
    encoder = ReferenceEncoder(open_checkpoint(str(checkpoints["0b6-base"])), torch.device("cpu"))
    assert encoder.batch_size([EncodeRequest(recording(9_000), codes=False)] * 4) == 1
