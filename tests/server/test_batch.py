"""Batches: several speech requests in one."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.audio_decoding import CONTENT_TYPES
from tests.server.serving import SPEECH, ScriptedServing, Serving, busy, endless, speech, streamed, write_config
from tests.server.test_bad_input import REFERENCE, check

BATCH = f"{SPEECH}/batch"


def post(client: httpx.Client, items: list[Any], **shared: Any) -> dict[str, Any]:
    answer = client.post(BATCH, json={"items": items, **shared})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    assert [result["index"] for result in body["results"]] == list(range(len(items)))
    assert body["total"] == len(items) == body["succeeded"] + body["failed"]
    return body


def audio_of(result: dict[str, Any]) -> bytes:
    assert result["status"] == "success", result
    return base64.b64decode(result["audio_data"])


def test_results_are_in_order_and_equal_single_requests(client: httpx.Client) -> None:
    items = [speech(seed=seed, voice=voice) for seed, voice in [(1, "ryan"), (2, "vivian"), (1, "vivian"), (1, "ryan")]]
    results = post(client, items)["results"]
    outputs = [audio_of(result) for result in results]
    assert outputs == [client.post(SPEECH, json=item).content for item in items]
    assert outputs[0] == outputs[3] != outputs[1]


def test_the_voice_of_an_item_replaces_the_shared_one(client: httpx.Client) -> None:
    width = client.get("/v1/models").json()["data"][0]["embedding_width"]
    shared = {"speaker_embedding": [0.5] * width, "x_vector_only_mode": True, "seed": 7, "max_new_tokens": 24}
    items = [{"input": "One."}, {"input": "One.", "voice": "vivian"}, {"input": "One.", "voices": [{"voice": "ryan"}]}]
    results = post(client, items, **shared, response_format="pcm")["results"]
    cloned, named, blended = map(audio_of, results)
    alone = [speech(input="One.", speaker_embedding=[0.5] * width), speech(input="One.", voice="vivian")]
    assert [cloned, named] == [client.post(SPEECH, json=body).content for body in alone]
    assert blended not in (cloned, named)


def test_an_item_without_a_voice_of_its_own_has_the_shared_one(client: httpx.Client) -> None:
    shared = {
        "ref_audio": REFERENCE,
        "ref_text": "one two three",
        "seed": 7,
        "max_new_tokens": 24,
        "response_format": "pcm",
    }
    empty, own = map(audio_of, post(client, [{"input": "One.", "voice": ""}, {"input": "One."}], **shared)["results"])
    assert empty == own


def test_an_item_with_its_own_recording_keeps_the_shared_transcript(client: httpx.Client) -> None:
    shared = {"ref_text": "one two three", "seed": 7, "max_new_tokens": 24, "response_format": "pcm"}
    [cloned] = map(audio_of, post(client, [{"input": "One.", "ref_audio": REFERENCE}], **shared)["results"])
    in_context = client.post(SPEECH, json={"input": "One.", "ref_audio": REFERENCE, **shared}).content
    assert cloned == in_context
    shared.pop("ref_text")
    assert cloned != client.post(SPEECH, json={"input": "One.", "ref_audio": REFERENCE, **shared}).content


def test_items_override_shared_fields(client: httpx.Client) -> None:
    shared = speech(response_format="wav", voice="ryan")
    shared.pop("input")
    items = [{"input": "One."}, {"input": "Two.", "response_format": "flac"}, {"input": "Three.", "voice": "vivian"}]
    results = post(client, items, **shared)["results"]
    assert [result["media_type"] for result in results] == [CONTENT_TYPES[kind] for kind in ("wav", "flac", "wav")]
    for item, result in zip(items, results, strict=True):
        assert audio_of(result) == client.post(SPEECH, json={**shared, **item, "stream": False}).content


def test_each_result_has_its_finish_reason(client: httpx.Client) -> None:
    result = post(client, [endless(max_new_tokens=6)])["results"][0]
    assert (result["finish_reason"], result["usage"]["output_tokens"]) == ("length", 5)
    assert result["sample_rate"] == 24_000


def test_an_invalid_item_fails_alone(client: httpx.Client) -> None:
    invalid: list[tuple[dict[str, Any], str, str]] = [
        ({"voice": "nobody"}, "voice", "voice_not_found"),
        ({"input": ""}, "input", "invalid_value"),
        ({"speed": 9}, "speed", "invalid_value"),
        ({"model": "gpt-2"}, "model", "model_not_found"),
        ({"language": "klingon"}, "language", "invalid_value"),
        ({"stream": True}, "stream", "unknown_parameter"),
        ({"stream_format": "sse"}, "stream_format", "unknown_parameter"),
        ({"tempreature": 1}, "tempreature", "unknown_parameter"),
    ]
    items = [speech(), *(speech(**fields) for fields, _, _ in invalid), speech()]
    body = post(client, items)
    first, *refused, last = body["results"]
    assert audio_of(first) == audio_of(last)
    assert (body["succeeded"], body["failed"]) == (2, len(invalid))
    for result, (_, param, code) in zip(refused, invalid, strict=True):
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
def test_an_invalid_batch_is_a_400(client: httpx.Client, body: dict, param: str, code: str) -> None:
    check(client.post(BATCH, json=body), 400, param, code)


@pytest.fixture(scope="module")
def two_at_a_time(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server that runs two requests, queues one, and limits the size of batches."""
    limits = {"max_running": 2, "max_waiting": 1, "max_batch_bytes": 100_000, "max_batch_items": 8}
    with ScriptedServing(write_config(tmp_path_factory.mktemp("two-at-a-time"), pocket, limits=limits)) as server:
        yield server.ready()


def long_batch() -> dict[str, Any]:
    return {"items": [endless(max_new_tokens=4000, response_format="mp3")] * 8}


def test_a_batch_leaves_room_for_single_requests(two_at_a_time: Serving) -> None:
    with two_at_a_time.send_speech(long_batch(), "long-batch", path=BATCH):
        two_at_a_time.until(busy)
        assert two_at_a_time.stats()["requests"] == 1
        with two_at_a_time.client() as client:
            assert client.post(SPEECH, json=speech()).status_code == 200
    two_at_a_time.wait_for("id=long-batch status=499")
    two_at_a_time.until_idle()


def test_a_disconnect_cancels_the_whole_batch(two_at_a_time: Serving) -> None:
    with two_at_a_time.send_speech(long_batch(), "left-behind", path=BATCH):
        two_at_a_time.until(busy)
    two_at_a_time.wait_for("id=left-behind status=499 outcome=client_left")
    two_at_a_time.until_idle()
    with two_at_a_time.client() as client:
        assert audio_of(post(client, [speech()])["results"][0])


def test_a_full_server_refuses_the_whole_batch(two_at_a_time: Serving) -> None:
    with (
        two_at_a_time.client() as first,
        two_at_a_time.client() as second,
        two_at_a_time.client() as third,
        ThreadPoolExecutor(1) as clients,
    ):
        with streamed(first, endless()) as one, streamed(second, endless()) as two:
            streams = [one.iter_raw(), two.iter_raw()]
            assert all(next(pieces) for pieces in streams)
            waiting = clients.submit(third.post, SPEECH, json=speech())
            two_at_a_time.until(lambda stats: stats["requests"] == 3)
            with two_at_a_time.client() as client:
                refused = client.post(BATCH, json={"items": [speech()]})
            check(refused, 429, None, "rate_limit_exceeded")
            assert int(refused.headers["retry-after"]) >= 1
        assert waiting.result().status_code == 200
    two_at_a_time.until_idle()


def test_the_output_of_a_batch_is_bounded(two_at_a_time: Serving) -> None:
    item = endless(max_new_tokens=30)
    with two_at_a_time.client() as client:
        first, second = post(client, [{**item, "max_new_tokens": 20}, item])["results"]
        assert len(audio_of(first)) == 19 * 1920 * 2
        assert second["error"]["code"] == "batch_too_large"
    two_at_a_time.until_idle()
