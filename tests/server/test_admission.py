"""Who speaks, who waits in line, and who is sent away until when."""

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
from tests.server.serving import SPEECH, Serving, busy, endless, speech, streamed, write_config
from tests.server.test_bad_input import check


@pytest.fixture(scope="module")
def narrow(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One at a time, and two in line."""
    limits = {"max_running": 1, "max_waiting": 2, "client_share": 1.0}
    config = write_config(tmp_path_factory.mktemp("narrow"), pocket, limits=limits)
    with Serving(config) as server:
        yield server.ready()


def post(server: Serving, name: str, body: dict) -> httpx.Response:
    with server.client() as client:
        return client.post(SPEECH, json=body, headers={"X-Request-Id": name})


def requests(server: Serving, count: int) -> None:
    server.until(lambda stats: stats["requests"] == count)


def test_who_comes_first_speaks_first_and_the_line_has_an_end(narrow: Serving) -> None:
    with ThreadPoolExecutor(2) as clients, narrow.client() as client, streamed(client, endless()) as response:
        pieces = response.iter_raw()
        assert next(pieces)
        waiting = []
        for place, name in enumerate(["first-in-line", "second-in-line"], 2):
            waiting.append(clients.submit(post, narrow, name, speech()))
            requests(narrow, place)
        refused = post(narrow, "too-many", speech())
        error = check(refused, 429, None, "rate_limit_exceeded")
        assert error["type"] == "rate_limit_error"
        assert int(refused.headers["retry-after"]) >= 1
        response.close()
        assert [each.result().status_code for each in waiting] == [200, 200]
    narrow.wait_for("id=second-in-line ")
    ended = [line for line in narrow.lines if "-in-line status=200 outcome=completed" in line]
    assert ["first-in-line" in line for line in ended] == [True, False]
    narrow.until_idle()


def test_whoever_leaves_the_line_makes_room_in_it(narrow: Serving) -> None:
    with narrow.client() as client, streamed(client, endless()) as response:
        pieces = response.iter_raw()
        assert next(pieces)
        with narrow.asked(speech(), "leaves-the-line"):
            requests(narrow, 2)
        narrow.wait_for("id=leaves-the-line status=499 outcome=client_left")
        requests(narrow, 1)
    narrow.until_idle()


def test_a_wrong_request_does_not_wait_to_be_told_so(narrow: Serving) -> None:
    with narrow.client() as client, streamed(client, endless()) as response:
        pieces = response.iter_raw()
        assert next(pieces)
        check(post(narrow, "wrong", speech(voice="nobody")), 404, "voice", "voice_not_found")
    narrow.until_idle()


def test_between_its_items_a_batch_goes_to_the_end_of_the_line(narrow: Serving) -> None:
    items = [endless(max_new_tokens=60)] * 8
    with ThreadPoolExecutor(1) as clients, narrow.client() as client:
        headers = {"X-Request-Id": "many"}
        batch = clients.submit(client.post, f"{SPEECH}/batch", json={"items": items}, headers=headers)
        narrow.until(busy)
        assert post(narrow, "one", speech()).status_code == 200
        assert batch.result().json()["succeeded"] == len(items)
    narrow.wait_for("id=many ")
    ended = re.findall(r"id=(\S+) status=200 outcome=completed", "\n".join(narrow.lines))
    assert ended.index("one") < ended.index("many.7") < ended.index("many")
    narrow.until_idle()


class Clock:
    """Time that passes when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def spoken(admission: Admission, clock: Clock, seconds: float) -> None:
    with admission.ticket("a") as ticket:
        ticket.request_turn()
        clock.now += seconds
        ticket.completed = True


def refusal(admission: Admission, client: str = "a") -> ApiError:
    with pytest.raises(ApiError) as refused, admission.ticket(client):
        pass
    return refused.value


def test_the_busier_and_the_slower_the_later_one_is_told_to_come_back() -> None:
    clock = Clock()
    admission = Admission(2, 3, clock)
    for seconds in (8.0, 12.0):
        spoken(admission, clock, seconds)
    with ExitStack() as held:
        for _ in range(5):
            held.enter_context(admission.ticket("a")).request_turn()
        assert (admission.running, admission.waiting) == (2, 3)
        assert refusal(admission).retry_after == 20  # four turns of 10 s, two at a time
    assert admission.admitted == 0


def test_before_anything_is_measured_one_may_come_back_soon() -> None:
    admission = Admission(1, 0, Clock())
    with admission.ticket("a"):
        assert 1 <= refusal(admission).retry_after <= 5


def test_nobody_is_sent_away_for_less_than_a_second_or_more_than_two_minutes() -> None:
    for seconds, told in [(0.001, 1), (1e6, 120)]:
        clock = Clock()
        admission = Admission(1, 0, clock)
        spoken(admission, clock, seconds)
        with admission.ticket("a"):
            assert refusal(admission).retry_after == told


def test_what_fails_at_once_says_nothing_about_how_long_speech_takes() -> None:
    clock = Clock()
    admission = Admission(1, 0, clock)
    spoken(admission, clock, 10.0)
    for _ in range(10):
        with pytest.raises(ValueError, match="no such voice"), admission.ticket("a") as ticket:
            ticket.request_turn()
            raise ValueError("no such voice")
        with admission.ticket("a") as left:
            left.request_turn()
    with admission.ticket("a") as ticket:
        ticket.request_turn()
        assert refusal(admission).retry_after == 10


def test_after_the_doors_are_closed_only_those_inside_go_on() -> None:
    admission = Admission(1, 5, Clock())
    with admission.ticket("a"), admission.ticket("a") as next_in_line:
        admission.close()
        assert refusal(admission).code == "draining"
        assert next_in_line.started_at is None
    assert admission.admitted == 0
