"""Admission: the order of the queue, its limit, and Retry-After."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from server.errors import ApiError
from server.synthesis.admission import Admission
from tests.server.serving import SPEECH, ScriptedServing, Serving, busy, endless, speech, streamed, write_config
from tests.server.test_bad_input import check


@pytest.fixture(scope="module")
def one_at_a_time(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server that runs one request at a time and queues two."""
    limits = {"max_running": 1, "max_waiting": 2, "client_share": 1.0}
    config = write_config(tmp_path_factory.mktemp("one-at-a-time"), pocket, limits=limits)
    with ScriptedServing(config) as server:
        yield server.ready()


def post(server: Serving, request_id: str, body: dict) -> httpx.Response:
    with server.client() as client:
        return client.post(SPEECH, json=body, headers={"X-Request-Id": request_id})


def until_requests(server: Serving, count: int) -> None:
    server.until(lambda stats: stats["requests"] == count)


def test_the_queue_is_first_in_first_out_and_bounded(one_at_a_time: Serving) -> None:
    with ThreadPoolExecutor(2) as clients, one_at_a_time.client() as client, streamed(client, endless()) as response:
        pieces = response.iter_raw()
        assert next(pieces)
        waiting = []
        for place, name in enumerate(["first-in-line", "second-in-line"], 2):
            waiting.append(clients.submit(post, one_at_a_time, name, speech()))
            until_requests(one_at_a_time, place)
        refused = post(one_at_a_time, "too-many", speech())
        error = check(refused, 429, None, "rate_limit_exceeded")
        assert error["type"] == "rate_limit_error"
        assert int(refused.headers["retry-after"]) >= 1
        response.close()
        assert [each.result().status_code for each in waiting] == [200, 200]
    one_at_a_time.wait_for("id=second-in-line ")
    ended = [line for line in one_at_a_time.lines if "-in-line status=200 outcome=completed" in line]
    assert ["first-in-line" in line for line in ended] == [True, False]
    one_at_a_time.until_idle()


def test_a_client_that_leaves_the_queue_frees_its_place(one_at_a_time: Serving) -> None:
    with one_at_a_time.client() as client, streamed(client, endless()) as response:
        pieces = response.iter_raw()
        assert next(pieces)
        with one_at_a_time.send_speech(speech(), "leaves-the-line"):
            until_requests(one_at_a_time, 2)
        one_at_a_time.wait_for("id=leaves-the-line status=499 outcome=client_left")
        until_requests(one_at_a_time, 1)
    one_at_a_time.until_idle()


def test_an_invalid_request_is_refused_without_queueing(one_at_a_time: Serving) -> None:
    with one_at_a_time.client() as client, streamed(client, endless()) as response:
        pieces = response.iter_raw()
        assert next(pieces)
        check(post(one_at_a_time, "wrong", speech(voice="nobody")), 404, "voice", "voice_not_found")
    one_at_a_time.until_idle()


def test_a_batch_requeues_between_its_items(one_at_a_time: Serving) -> None:
    items = [endless(max_new_tokens=20)] * 8
    with ThreadPoolExecutor(1) as clients, one_at_a_time.client() as client:
        headers = {"X-Request-Id": "many"}
        batch = clients.submit(client.post, f"{SPEECH}/batch", json={"items": items}, headers=headers)
        one_at_a_time.until(busy)
        assert post(one_at_a_time, "one", speech()).status_code == 200
        assert batch.result().json()["succeeded"] == len(items)
    one_at_a_time.wait_for("id=many ")
    ended = re.findall(r"id=(\S+) status=200 outcome=completed", "\n".join(one_at_a_time.lines))
    assert ended.index("one") < ended.index("many.7") < ended.index("many")
    one_at_a_time.until_idle()


class Clock:
    """A clock that advances only when set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def record_utterance(admission: Admission, clock: Clock, seconds: float) -> None:
    with admission.ticket("a") as ticket:
        ticket.request_start()
        clock.now += seconds
        ticket.completed = True


def refusal(admission: Admission, client: str = "a") -> ApiError:
    with pytest.raises(ApiError) as refused, admission.ticket(client):
        pass
    return refused.value


def test_retry_after_grows_with_the_load_and_the_duration_of_requests() -> None:
    clock = Clock()
    admission = Admission(2, 3, clock)
    for seconds in (8.0, 12.0):
        record_utterance(admission, clock, seconds)
    with ExitStack() as tickets:
        for _ in range(5):
            tickets.enter_context(admission.ticket("a")).request_start()
        assert (admission.running, admission.waiting) == (2, 3)
        assert refusal(admission).retry_after == 20  # four rounds of 10 s, two at a time
    assert admission.ticket_count == 0


def test_retry_after_is_short_before_anything_is_measured() -> None:
    admission = Admission(1, 0, Clock())
    with admission.ticket("a"):
        assert 1 <= refusal(admission).retry_after <= 5


def test_retry_after_is_between_one_second_and_two_minutes() -> None:
    for seconds, retry_after in [(0.001, 1), (1e6, 120)]:
        clock = Clock()
        admission = Admission(1, 0, clock)
        record_utterance(admission, clock, seconds)
        with admission.ticket("a"):
            assert refusal(admission).retry_after == retry_after


def test_requests_that_fail_at_once_do_not_change_retry_after() -> None:
    clock = Clock()
    admission = Admission(1, 0, clock)
    record_utterance(admission, clock, 10.0)
    for _ in range(10):
        with pytest.raises(ValueError, match="no such voice"), admission.ticket("a") as ticket:
            ticket.request_start()
            raise ValueError("no such voice")
        with admission.ticket("a") as left:
            left.request_start()
    with admission.ticket("a") as ticket:
        ticket.request_start()
        assert refusal(admission).retry_after == 10


def test_a_closed_admission_lets_only_admitted_requests_continue() -> None:
    admission = Admission(1, 5, Clock())
    with admission.ticket("a"), admission.ticket("a") as next_in_line:
        admission.close()
        assert refusal(admission).code == "draining"
        assert next_in_line.started_at is None
    assert admission.ticket_count == 0
