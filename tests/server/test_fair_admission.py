"""Which client gets the next free slot, and which one loses its slot to those who wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from engine.protocol.request import SAMPLE_RATE, AudioChunk, Completion, FinishReason
from server.errors import ApiError
from server.http.clients import client_quota
from server.live.utterance import LiveStream
from server.synthesis.admission import Admission
from server.synthesis.admission_ticket import AdmissionTicket
from tests.server.test_admission import Clock, refusal

FRAME = 0.08
"""Seconds of audio that a token of live text is worth."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def held() -> Iterator[ExitStack]:
    with ExitStack() as held:
        yield held


def enter(admission: Admission, held: ExitStack, client: str) -> tuple[AdmissionTicket, ExitStack]:
    """A ticket whose turn may come, and the stack that gives it back."""
    stack = held.enter_context(ExitStack())
    ticket = stack.enter_context(admission.ticket(client))
    ticket.request_turn()
    return ticket, stack


def running(ticket: AdmissionTicket) -> bool:
    return ticket.started_at is not None


def test_the_next_seat_goes_to_the_client_that_has_the_fewest(held: ExitStack) -> None:
    admission = Admission(3, 20)
    (_, first), (_, second), (_, third) = (enter(admission, held, client) for client in "aab")
    more_of_a = [enter(admission, held, "a")[0] for _ in range(3)]
    more_of_b = enter(admission, held, "b")[0]
    of_c = [enter(admission, held, "c")[0] for _ in range(2)]
    started = []
    for stack in (third, first, second):
        stack.close()
        started.append([running(ticket) for ticket in (*more_of_a, more_of_b, *of_c)])
    assert started == [
        [False, False, False, True, False, False],  # b has none, and came before c
        [False, False, False, True, True, False],  # c has none, a still one
        [True, False, False, True, True, False],  # a has none left
    ]


def test_one_client_runs_on_every_seat_while_no_other_waits(held: ExitStack) -> None:
    admission = Admission(8, 8, share=0.8)
    assert all(running(enter(admission, held, "a")[0]) for _ in range(8))


def test_a_client_may_fill_its_share_of_the_queue_and_leaves_room_for_others(held: ExitStack) -> None:
    admission = Admission(2, 10, share=0.8)
    for _ in range(2 + 8):
        enter(admission, held, "a")
    refused = refusal(admission, "a")
    assert (refused.status, refused.code) == (429, "rate_limit_exceeded")
    assert "8 of 10 places" in refused.message
    for _ in range(2):
        enter(admission, held, "b")
    assert "2 requests run and 10 wait" in refusal(admission, "b").message


def test_a_seat_is_not_held_by_a_request_that_prepares(held: ExitStack) -> None:
    admission = Admission(1, 3)
    prepares = held.enter_context(admission.ticket("a"))
    ready, stack = enter(admission, held, "a")
    assert running(ready)
    prepares.request_turn()
    assert not running(prepares)
    stack.close()
    assert running(prepares)


def test_a_request_keeps_its_place_while_it_prepares(held: ExitStack) -> None:
    admission = Admission(1, 3)
    _, stack = enter(admission, held, "a")
    early = held.enter_context(admission.ticket("a"))
    late, _ = enter(admission, held, "a")
    early.request_turn()
    stack.close()
    assert (running(early), running(late)) == (True, False)


@pytest.mark.parametrize(
    ("places", "share", "most"),
    [(8, 0.8, 7), (10, 0.7, 7), (4, 0.8, 3), (1, 0.8, 1), (2, 0.1, 1), (8, 1.0, 8)],
)
def test_a_share_is_rounded_up_and_leaves_one_place(places: int, share: float, most: int) -> None:
    assert client_quota(places, share) == most


def contended(clock: Clock, running: int = 2) -> Admission:
    return Admission(running, 10, clock, share=0.8, contended_wait=10.0, recall_after=60.0)


def test_who_keeps_the_engine_waiting_is_evicted_only_while_others_wait(clock: Clock, held: ExitStack) -> None:
    admission = contended(clock)
    blocked, _ = enter(admission, held, "a")
    busy, _ = enter(admission, held, "b")
    blocked.add_audio(5.0)
    blocked.begin_client_wait()
    clock.now += 3600.0
    admission.evict_for_waiting()
    assert not blocked.evicted
    enter(admission, held, "c")
    admission.evict_for_waiting()
    assert (blocked.evicted, busy.evicted) == (True, False)


def test_the_allowance_is_the_audio_given_and_the_contended_wait(clock: Clock, held: ExitStack) -> None:
    admission = contended(clock, running=1)
    ticket, _ = enter(admission, held, "a")
    enter(admission, held, "b")
    ticket.add_audio(5.0)
    ticket.begin_client_wait()
    clock.now += 15.0
    admission.evict_for_waiting()
    assert not ticket.evicted
    clock.now += 0.1
    admission.evict_for_waiting()
    assert ticket.evicted


def test_a_paced_listener_of_a_fast_engine_is_never_evicted(clock: Clock, held: ExitStack) -> None:
    admission = contended(clock, running=1)
    ticket, _ = enter(admission, held, "a")
    enter(admission, held, "b")
    for _ in range(1000):  # the engine takes no time, and each second of audio is taken in a second
        ticket.add_audio(1.0)
        ticket.begin_client_wait()
        clock.now += 1.0
        admission.evict_for_waiting()
        ticket.end_client_wait()
    assert not ticket.evicted


def test_no_more_seats_are_taken_than_are_waited_for(clock: Clock, held: ExitStack) -> None:
    admission = contended(clock, running=3)
    slow = [enter(admission, held, "a")[0] for _ in range(3)]
    for ticket in slow:
        ticket.begin_client_wait()
        clock.now += 20.0
    enter(admission, held, "b")
    for _ in range(3):
        admission.evict_for_waiting()
    assert [ticket.evicted for ticket in slow] == [True, False, False]  # the one that waited longest


def test_a_client_beyond_its_share_gives_a_seat_back_to_one_that_waits_long(clock: Clock, held: ExitStack) -> None:
    admission = contended(clock, running=4)
    seats = []
    for _ in range(4):
        seats.append(enter(admission, held, "a")[0])
        clock.now += 1.0
    enter(admission, held, "a")
    clock.now += 100.0
    admission.evict_for_waiting()
    assert not any(ticket.evicted for ticket in seats)  # only the same client waits
    enter(admission, held, "b")
    clock.now += 59.0
    admission.evict_for_waiting()
    assert not any(ticket.evicted for ticket in seats)
    clock.now += 1.0
    admission.evict_for_waiting()
    admission.evict_for_waiting()
    assert [ticket.evicted for ticket in seats] == [False, False, False, True]


async def test_a_pause_while_nobody_waited_is_forgiven_when_others_come() -> None:
    clock = Clock()
    admission = contended(clock, running=1)
    with admission.ticket("a") as ticket:
        await ticket.wait_for_turn()
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


async def test_an_evicted_holder_is_told_why_and_the_next_one_runs() -> None:
    clock = Clock()
    admission = contended(clock, running=1)
    waiting = asyncio.create_task(next_turn(admission))
    with pytest.raises(ApiError) as told, admission.ticket("a") as ticket, ticket.evictable():
        await ticket.wait_for_turn()
        await asyncio.sleep(0)  # from here on the other request waits
        ticket.begin_client_wait()
        clock.now += 60.0
        await asyncio.Event().wait()
    assert (told.value.status, told.value.code) == (408, "client_too_slow")
    assert "10 s are allowed" in told.value.message
    async with asyncio.timeout(10.0):
        await waiting
    assert admission.admitted == 0


async def next_turn(admission: Admission) -> None:
    with admission.ticket("b") as ticket:
        await ticket.wait_for_turn()


class Talker:
    """The speech of text that comes ``tokens`` at a time, each burst ``pause`` seconds after the one before."""

    completion = Completion(FinishReason.STOP, 1, 1)

    def __init__(self, clock: Clock, bursts: list[tuple[int, float]], token_seconds: float, pace: float) -> None:
        """token_seconds: between tokens of a burst; pace: seconds that the engine takes for a second of audio."""
        self._clock, self._bursts, self._token, self._pace = clock, bursts, token_seconds, pace

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
        """There is nothing to free."""


async def evicted(bursts: list[tuple[int, float]], token_seconds: float, pace: float, clock: Clock) -> bool:
    """Whether live text of this pace loses its seat while another request waits."""
    admission = contended(clock, running=1)
    with ExitStack() as held:
        ticket, _ = enter(admission, held, "a")
        enter(admission, held, "b")
        stream = LiveStream(Talker(clock, bursts, token_seconds, pace), ticket, complete=False)
        async for chunk in stream:
            admission.evict_for_waiting()
            ticket.add_audio(len(chunk.samples) / SAMPLE_RATE)
        return ticket.evicted


@pytest.mark.parametrize("pace", [0.05, 0.8, 1.9], ids=["fast engine", "real time", "half of real time"])
@pytest.mark.parametrize("rate", [20.0, 50.0])
async def test_a_language_model_that_pauses_keeps_its_seat(rate: float, pace: float, clock: Clock) -> None:
    """Three seconds without a token after every two seconds of them, for minutes."""
    assert not await evicted([(round(2 * rate), 3.0)] * 30, 1 / rate, pace, clock)


@pytest.mark.parametrize(
    ("tokens", "pause"), [(1, 40.0), (2, 9.0), (1, 0.5), (10, 20.0)], ids=["40 s", "9 s", "half a second", "20 s"]
)
async def test_text_that_trickles_loses_its_seat(tokens: int, pause: float, clock: Clock) -> None:
    assert await evicted([(tokens, pause)] * 60, 0.02, 0.05, clock)


async def test_waits_after_all_text_was_sent_are_the_engines(clock: Clock) -> None:
    admission = contended(clock, running=1)
    with admission.ticket("a") as ticket:
        ticket.request_turn()
        stream = LiveStream(Talker(clock, [(50, 0.0)], 10.0, 0.0), ticket, complete=False)
        stream.finish()
        async for _ in stream:
            pass
        assert ticket.client_lag(clock.now) == 0.0
