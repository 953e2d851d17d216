"""Admission between clients: which request runs next, and which one loses its slot to others that wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from engine.protocol.request import SAMPLE_RATE, AudioChunk, Completion, FinishReason
from server.errors import ApiError
from server.http.clients import client_quota
from server.live.utterance import LiveStream
from server.long_text.spoken_piece import SpokenPiece
from server.synthesis.admission import Admission
from server.synthesis.admission_ticket import AdmissionTicket
from tests.server.test_admission import Clock, refusal

FRAME = 0.08
"""Seconds of audio per live text token."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def queue_request(admission: Admission, stack: ExitStack, client: str) -> tuple[AdmissionTicket, ExitStack]:
    """Queue a request that is ready to run. Closing the returned stack releases it."""
    own_stack = stack.enter_context(ExitStack())
    ticket = own_stack.enter_context(admission.ticket(client))
    ticket.request_start()
    return ticket, own_stack


def is_running(ticket: AdmissionTicket) -> bool:
    return ticket.started_at is not None


def test_the_next_place_goes_to_the_client_with_the_fewest_running_requests(stack: ExitStack) -> None:
    admission = Admission(3, 20)
    (_, first), (_, second), (_, third) = (queue_request(admission, stack, client) for client in "aab")
    more_of_a = [queue_request(admission, stack, "a")[0] for _ in range(3)]
    more_of_b = queue_request(admission, stack, "b")[0]
    of_c = [queue_request(admission, stack, "c")[0] for _ in range(2)]
    started = []
    for admitted in (third, first, second):
        admitted.close()
        started.append([is_running(ticket) for ticket in (*more_of_a, more_of_b, *of_c)])
    assert started == [
        [False, False, False, True, False, False],  # b runs none, and came before c
        [False, False, False, True, True, False],  # c runs none, a still runs one
        [True, False, False, True, True, False],  # a runs none
    ]


def test_one_client_uses_all_places_if_no_other_waits(stack: ExitStack) -> None:
    admission = Admission(8, 8, share=0.8)
    assert all(is_running(queue_request(admission, stack, "a")[0]) for _ in range(8))


def test_a_client_may_fill_only_its_share_of_the_queue(stack: ExitStack) -> None:
    admission = Admission(2, 10, share=0.8)
    for _ in range(2 + 8):
        queue_request(admission, stack, "a")
    refused = refusal(admission, "a")
    assert (refused.status, refused.code) == (429, "rate_limit_exceeded")
    assert "8 of 10 waiting requests" in refused.message
    for _ in range(2):
        queue_request(admission, stack, "b")
    assert "2 requests run and 10 wait" in refusal(admission, "b").message


def test_a_preparing_request_does_not_run(stack: ExitStack) -> None:
    admission = Admission(1, 3)
    prepares = stack.enter_context(admission.ticket("a"))
    ready, running_request = queue_request(admission, stack, "a")
    assert is_running(ready)
    prepares.request_start()
    assert not is_running(prepares)
    running_request.close()
    assert is_running(prepares)


def test_a_request_keeps_its_place_in_the_queue_while_it_prepares(stack: ExitStack) -> None:
    admission = Admission(1, 3)
    _, running_request = queue_request(admission, stack, "a")
    early = stack.enter_context(admission.ticket("a"))
    late, _ = queue_request(admission, stack, "a")
    early.request_start()
    running_request.close()
    assert (is_running(early), is_running(late)) == (True, False)


@pytest.mark.parametrize(
    ("places", "share", "most"),
    [(8, 0.8, 7), (10, 0.7, 7), (4, 0.8, 3), (1, 0.8, 1), (2, 0.1, 1), (8, 1.0, 8)],
)
def test_a_share_is_rounded_up_and_leaves_one_place(places: int, share: float, most: int) -> None:
    assert client_quota(places, share) == most


def fair_admission(clock: Clock, running: int = 2) -> Admission:
    return Admission(running, 10, clock, share=0.8, contended_wait=10.0, recall_after=60.0)


def test_a_blocked_request_is_evicted_only_if_others_wait(clock: Clock, stack: ExitStack) -> None:
    admission = fair_admission(clock)
    blocked, _ = queue_request(admission, stack, "a")
    busy, _ = queue_request(admission, stack, "b")
    blocked.add_audio(5.0)
    blocked.begin_client_wait()
    clock.now += 3600.0
    admission.evict_for_waiting()
    assert not blocked.evicted
    queue_request(admission, stack, "c")
    admission.evict_for_waiting()
    assert (blocked.evicted, busy.evicted) == (True, False)


def test_a_client_may_block_for_the_audio_it_received_plus_the_contended_wait(clock: Clock, stack: ExitStack) -> None:
    admission = fair_admission(clock, running=1)
    ticket, _ = queue_request(admission, stack, "a")
    queue_request(admission, stack, "b")
    ticket.add_audio(5.0)
    ticket.begin_client_wait()
    clock.now += 15.0
    admission.evict_for_waiting()
    assert not ticket.evicted
    clock.now += 0.1
    admission.evict_for_waiting()
    assert ticket.evicted


def test_a_real_time_reader_of_a_fast_engine_is_never_evicted(clock: Clock, stack: ExitStack) -> None:
    admission = fair_admission(clock, running=1)
    ticket, _ = queue_request(admission, stack, "a")
    queue_request(admission, stack, "b")
    for _ in range(1000):  # the engine takes no time, and the client reads one second of audio per second
        ticket.add_audio(1.0)
        ticket.begin_client_wait()
        clock.now += 1.0
        admission.evict_for_waiting()
        ticket.end_client_wait()
    assert not ticket.evicted


def test_only_as_many_requests_are_evicted_as_wait(clock: Clock, stack: ExitStack) -> None:
    admission = fair_admission(clock, running=3)
    slow = [queue_request(admission, stack, "a")[0] for _ in range(3)]
    for ticket in slow:
        ticket.begin_client_wait()
        clock.now += 20.0
    queue_request(admission, stack, "b")
    for _ in range(3):
        admission.evict_for_waiting()
    assert [ticket.evicted for ticket in slow] == [True, False, False]  # the one that blocked longest


def test_a_client_beyond_its_share_is_evicted_after_another_waits_long(clock: Clock, stack: ExitStack) -> None:
    admission = fair_admission(clock, running=4)
    tickets = []
    for _ in range(4):
        tickets.append(queue_request(admission, stack, "a")[0])
        clock.now += 1.0
    queue_request(admission, stack, "a")
    clock.now += 100.0
    admission.evict_for_waiting()
    assert not any(ticket.evicted for ticket in tickets)  # only requests of the same client wait
    queue_request(admission, stack, "b")
    clock.now += 59.0
    admission.evict_for_waiting()
    assert not any(ticket.evicted for ticket in tickets)
    clock.now += 1.0
    admission.evict_for_waiting()
    admission.evict_for_waiting()
    assert [ticket.evicted for ticket in tickets] == [False, False, False, True]


async def test_blocking_before_others_wait_does_not_count() -> None:
    clock = Clock()
    admission = fair_admission(clock, running=1)
    with admission.ticket("a") as ticket:
        await ticket.wait_until_running()
        ticket.begin_client_wait()
        clock.now += 40.0
        waiting = asyncio.create_task(next_turn(admission))
        await asyncio.sleep(0)
        assert not ticket.evicted
        clock.now += 9.0
        admission.evict_for_waiting()
        assert not ticket.evicted
        clock.now += 2.0
        admission.evict_for_waiting()
        assert ticket.evicted
    async with asyncio.timeout(10.0):
        await waiting


async def test_an_evicted_request_raises_the_reason_and_the_next_one_runs() -> None:
    clock = Clock()
    admission = fair_admission(clock, running=1)
    waiting = asyncio.create_task(next_turn(admission))
    with pytest.raises(ApiError) as error, admission.ticket("a") as ticket, ticket.evictable():
        await ticket.wait_until_running()
        await asyncio.sleep(0)  # from here on the other request waits
        ticket.begin_client_wait()
        clock.now += 60.0
        await asyncio.Event().wait()
    assert (error.value.status, error.value.code) == (408, "client_too_slow")
    assert "10 s are allowed" in error.value.message
    async with asyncio.timeout(10.0):
        await waiting
    assert admission.ticket_count == 0


async def next_turn(admission: Admission) -> None:
    with admission.ticket("b") as ticket:
        await ticket.wait_until_running()


class Talker:
    """The speech of live text that arrives in bursts of ``tokens``, each ``pause`` seconds after the previous one."""

    completion = Completion(FinishReason.STOP, 1, 1)

    def __init__(self, clock: Clock, bursts: list[tuple[int, float]], token_seconds: float, pace: float) -> None:
        """token_seconds: time between the tokens of a burst; pace: engine time per second of audio, in seconds."""
        self._clock, self._bursts, self._token, self._pace = clock, bursts, token_seconds, pace
        self.spoken: deque[SpokenPiece] = deque()

    async def __aiter__(self) -> AsyncIterator[AudioChunk]:
        written = made = self._clock.now
        for tokens, pause in self._bursts:
            for _ in range(tokens):
                written += self._token
                made = max(written, made + self._pace * FRAME)
                self._clock.now = max(self._clock.now, made)
                yield AudioChunk(np.zeros(round(FRAME * SAMPLE_RATE), np.int16), np.zeros((1, 16), np.int16))
            written += pause

    def cancel(self) -> None:
        """Nothing to release."""


async def is_evicted(bursts: list[tuple[int, float]], token_seconds: float, pace: float, clock: Clock) -> bool:
    """Whether live text with these bursts is evicted while another request waits."""
    admission = fair_admission(clock, running=1)
    with ExitStack() as held:
        ticket, _ = queue_request(admission, held, "a")
        queue_request(admission, held, "b")
        stream = LiveStream(Talker(clock, bursts, token_seconds, pace), ticket, complete=False)
        async for chunk in stream:
            admission.evict_for_waiting()
            ticket.add_audio(len(chunk.samples) / SAMPLE_RATE)
        return ticket.evicted


@pytest.mark.parametrize("pace", [0.05, 0.8, 1.9], ids=["fast engine", "real time", "half of real time"])
@pytest.mark.parametrize("rate", [20.0, 50.0])
async def test_live_text_with_pauses_of_a_language_model_is_not_evicted(rate: float, pace: float, clock: Clock) -> None:
    """Three seconds without tokens after every two seconds of tokens, for minutes."""
    assert not await is_evicted([(round(2 * rate), 3.0)] * 30, 1 / rate, pace, clock)


@pytest.mark.parametrize(
    ("tokens", "pause"), [(1, 40.0), (2, 9.0), (1, 0.5), (10, 20.0)], ids=["40 s", "9 s", "half a second", "20 s"]
)
async def test_live_text_that_trickles_is_evicted(tokens: int, pause: float, clock: Clock) -> None:
    assert await is_evicted([(tokens, pause)] * 60, 0.02, 0.05, clock)


async def test_waits_after_the_last_text_are_attributed_to_the_engine(clock: Clock) -> None:
    admission = fair_admission(clock, running=1)
    with admission.ticket("a") as ticket:
        ticket.request_start()
        stream = LiveStream(Talker(clock, [(50, 0.0)], 10.0, 0.0), ticket, complete=False)
        stream.finish()
        async for _ in stream:
            pass
        assert ticket.client_lag(clock.now) == 0.0
