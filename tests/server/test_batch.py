"""Several speech requests in one."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.hearing import CONTENT_TYPES
from tests.server.serving import SPEECH, Serving, busy, endless, speech, streamed, write_config
from tests.server.test_bad_input import check

BATCH = f"{SPEECH}/batch"


def post(client: httpx.Client, items: list[Any], **shared: Any) -> dict[str, Any]:
    answer = client.post(BATCH, json={"items": items, **shared})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    assert [result["index"] for result in body["results"]] == list(range(len(items)))
    assert body["total"] == len(items) == body["succeeded"] + body["failed"]
    return body


def audio(result: dict[str, Any]) -> bytes:
    assert result["status"] == "success", result
    return base64.b64decode(result["audio_data"])


def test_results_come_in_order_and_are_what_single_requests_hear(client: httpx.Client) -> None:
    items = [speech(seed=seed, voice=voice) for seed, voice in [(1, "ryan"), (2, "vivian"), (1, "vivian"), (1, "ryan")]]
    results = post(client, items)["results"]
    heard = [audio(result) for result in results]
    assert heard == [client.post(SPEECH, json=item).content for item in items]
    assert heard[0] == heard[3] != heard[1]


def test_what_is_common_to_all_is_said_once_and_an_item_may_say_otherwise(client: httpx.Client) -> None:
    shared = speech(response_format="wav", voice="ryan")
    shared.pop("input")
    items = [{"input": "One."}, {"input": "Two.", "response_format": "flac"}, {"input": "Three.", "voice": "vivian"}]
    results = post(client, items, **shared)["results"]
    assert [result["media_type"] for result in results] == [CONTENT_TYPES[kind] for kind in ("wav", "flac", "wav")]
    for item, result in zip(items, results, strict=True):
        assert audio(result) == client.post(SPEECH, json={**shared, **item, "stream": False}).content


def test_each_result_tells_how_it_ended(client: httpx.Client) -> None:
    result = post(client, [endless(max_new_tokens=6)])["results"][0]
    assert (result["finish_reason"], result["usage"]["output_tokens"]) == ("length", 5)
    assert result["sample_rate"] == 24_000


def test_a_wrong_item_has_its_own_error_and_stops_no_other(client: httpx.Client) -> None:
    wrong: list[tuple[dict[str, Any], str, str]] = [
        ({"voice": "nobody"}, "voice", "voice_not_found"),
        ({"input": ""}, "input", "invalid_value"),
        ({"speed": 9}, "speed", "invalid_value"),
        ({"model": "gpt-2"}, "model", "model_not_found"),
        ({"language": "klingon"}, "language", "invalid_value"),
        ({"stream": True}, "stream", "unknown_parameter"),
        ({"stream_format": "sse"}, "stream_format", "unknown_parameter"),
        ({"tempreature": 1}, "tempreature", "unknown_parameter"),
    ]
    items = [speech(), *(speech(**fields) for fields, _, _ in wrong), speech()]
    body = post(client, items)
    first, *refused, last = body["results"]
    assert audio(first) == audio(last)
    assert (body["succeeded"], body["failed"]) == (2, len(wrong))
    for result, (_, param, code) in zip(refused, wrong, strict=True):
        assert result["status"] == "error"
        assert sorted(result["error"]) == ["code", "message", "param", "type"]
        assert (result["error"]["param"], result["error"]["code"]) == (param, code)


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({}, "items", "missing_required_parameter"),
        ({"items": []}, "items", "invalid_value"),
        ({"items": [speech()] * 65}, "items", "invalid_value"),
        ({"items": "hello"}, "items", "invalid_type"),
        ({"items": ["hello"]}, "items", "invalid_type"),
        ({"items": [speech()], "input": "hello"}, "input", "unknown_parameter"),
        ({"items": [speech()], "stream": False}, "stream", "unknown_parameter"),
        ({"items": [speech()], "voise": "ryan"}, "voise", "unknown_parameter"),
    ],
)
def test_what_is_wrong_with_all_of_it_is_a_400(client: httpx.Client, body: dict, param: str, code: str) -> None:
    check(client.post(BATCH, json=body), 400, param, code)


@pytest.fixture(scope="module")
def narrow(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Two at a time and one in line, and little room for what a batch makes."""
    limits = {"max_running": 2, "max_waiting": 1, "max_batch_bytes": 100_000, "max_batch_items": 8}
    with Serving(write_config(tmp_path_factory.mktemp("narrow"), pocket, limits=limits)) as server:
        yield server.ready()


def long_batch() -> dict[str, Any]:
    return {"items": [endless(max_new_tokens=4000, response_format="mp3")] * 8}


def test_a_batch_leaves_room_for_single_requests(narrow: Serving) -> None:
    with narrow.asked(long_batch(), "crowds-nobody-out", path=BATCH):
        narrow.until(busy)
        assert narrow.stats()["requests"] == 1
        with narrow.client() as client:
            assert client.post(SPEECH, json=speech()).status_code == 200
    narrow.wait_for("id=crowds-nobody-out status=499")
    narrow.until_idle()


def test_who_leaves_a_batch_cancels_all_of_it(narrow: Serving) -> None:
    with narrow.asked(long_batch(), "left-behind", path=BATCH):
        narrow.until(busy)
    narrow.wait_for("id=left-behind status=499 outcome=client_left")
    narrow.until_idle()
    with narrow.client() as client:
        assert audio(post(client, [speech()])["results"][0])


def test_a_full_server_turns_the_whole_batch_away(narrow: Serving) -> None:
    with narrow.client() as first, narrow.client() as second, narrow.client() as third, ThreadPoolExecutor(1) as line:
        with streamed(first, endless()) as one, streamed(second, endless()) as two:
            speaking = [one.iter_raw(), two.iter_raw()]
            assert all(next(pieces) for pieces in speaking)
            waiting = line.submit(third.post, SPEECH, json=speech())
            narrow.until(lambda stats: stats["requests"] == 3)
            with narrow.client() as client:
                refused = client.post(BATCH, json={"items": [speech()]})
            check(refused, 429, None, "rate_limit_exceeded")
            assert int(refused.headers["retry-after"]) >= 1
        assert waiting.result().status_code == 200
    narrow.until_idle()


def test_what_a_batch_makes_is_bounded(narrow: Serving) -> None:
    long = endless(max_new_tokens=30)
    with narrow.client() as client:
        first, second = post(client, [{**long, "max_new_tokens": 20}, long])["results"]
        assert len(audio(first)) == 19 * 1920 * 2
        assert second["error"]["code"] == "batch_too_large"
    narrow.until_idle()
