"""Outcomes, logs and metrics of utterances within live sessions and batches: the same as for single requests."""

from __future__ import annotations

import httpx
import pytest
from websockets.sync.client import connect

from tests.server.live_client import (
    TEXT,
    live_url,
    receive_error,
    receive_first_audio,
    receive_until_event,
    receive_utterance,
    send_messages,
    send_text,
    send_utterance,
    session,
)
from tests.server.serving import LOOPING, SPEECH, TIMEOUT, Serving, busy, endless, speech
from tests.server.test_bad_input import check
from tests.server.test_metrics import MetricIncrease
from tests.server.test_outcomes import get_outcome

TASK = {"task": "CustomVoice"}


def test_a_live_utterance_has_an_outcome_like_a_request(serving: Serving, client: httpx.Client) -> None:
    with session(serving, "chat", **LOOPING, max_new_tokens=26) as socket:
        for _ in range(2):
            send_utterance(socket, TEXT)
            _, (start, _) = receive_utterance(socket)
        assert start["request_id"] == "chat.1"
        serving.wait_for("id=chat.1 ")
        found = get_outcome(client, "chat.1")
        assert get_outcome(client, "chat")["outcome"] == "running"
    assert (found["status"], found["outcome"], found["finish"]) == (200, "completed", "length")
    assert (found["task"], found["voice"], found["characters"], found["audio"]) == (
        "CustomVoice",
        "vivian",
        len(TEXT),
        2.0,
    )
    assert 0 < found["first_audio"] <= found["onset"]
    assert found["first_audio"] <= found["seconds"]
    assert not {"rtf", "underruns"} & found.keys()
    serving.wait_for("id=chat status=101 outcome=completed")
    whole = get_outcome(client, "chat")
    assert (whole["status"], whole["characters"], whole["audio"], whole["voice"]) == (101, 2 * len(TEXT), 4.0, "vivian")
    assert "first_audio" not in whole


def test_the_handshake_response_has_the_request_id(serving: Serving) -> None:
    with session(serving, "named") as socket:
        assert socket.response is not None
        assert socket.response.headers["X-Request-Id"] == "named"
    with connect(live_url(serving), open_timeout=TIMEOUT) as socket:
        assert socket.response is not None
        assert socket.response.headers["X-Request-Id"].startswith("req_")


def test_live_utterances_are_counted_like_requests(serving: Serving) -> None:
    grown = MetricIncrease(serving)
    with session(serving, "counted", **LOOPING, max_new_tokens=26) as socket:
        for _ in range(2):
            send_utterance(socket, TEXT)
            receive_utterance(socket)
        grown.update()
        assert grown("live_sessions_open") == 1
    serving.wait_for("id=counted status=101")
    serving.stats()
    grown.update()
    assert grown("live_sessions_open") == 0
    assert grown("live_sessions_total", outcome="completed") == 1
    assert grown("requests_total", outcome="completed", **TASK) == 2
    assert grown("audio_seconds_total", **TASK) == pytest.approx(4.0)
    assert grown("characters_total", **TASK) == 2 * len(TEXT)
    for name in ("request_seconds", "time_to_first_audio_seconds", "audible_onset_seconds"):
        assert grown(f"{name}_count", **TASK) == 2, name
    assert grown("real_time_factor_count", **TASK) == 0
    assert grown("underruns_total") == 0


def test_an_utterance_cancelled_by_its_client_is_completed(serving: Serving, client: httpx.Client) -> None:
    with session(serving, "barged", max_new_tokens=2000) as socket:
        send_text(socket)
        receive_first_audio(socket)
        assert get_outcome(client, "barged.0")["outcome"] == "running"
        send_messages(socket, {"type": "cancel"})
        receive_until_event(socket)
        found = get_outcome(client, "barged.0")
    assert (found["outcome"], found["finish"]) == ("completed", "cancelled")
    assert found["audio"] > 0


def test_an_utterance_whose_client_disconnects_has_outcome_client_left(serving: Serving, client: httpx.Client) -> None:
    grown = MetricIncrease(serving)
    with session(serving, "vanished", max_new_tokens=2000) as socket:
        send_text(socket)
        receive_first_audio(socket)
        socket.socket.close()
    serving.wait_for("id=vanished status=499 outcome=client_left")
    assert [get_outcome(client, name)["outcome"] for name in ("vanished", "vanished.0")] == ["client_left"] * 2
    grown.update()
    assert grown("requests_total", outcome="client_left", **TASK) == 1
    assert grown("live_sessions_total", outcome="client_left") == 1


@pytest.mark.parametrize(
    ("message", "code"),
    [({"type": "shout"}, "invalid_value"), ({"type": "input.text", "text": "a" * 5000}, "string_above_max_length")],
)
def test_an_error_that_ends_the_session_ends_its_utterance(
    serving: Serving, client: httpx.Client, message: dict, code: str
) -> None:
    name = f"wrong-{code}"
    with session(serving, name, max_new_tokens=2000) as socket:
        send_messages(socket, {"type": "input.text", "text": "One two"}, message)
        assert receive_error(socket)["code"] == code
    serving.wait_for(f"id={name} status=400")
    for part in (name, f"{name}.0"):
        found = get_outcome(client, part)
        assert (found["status"], found["outcome"], found["error"]) == (400, "refused", code)


def test_an_utterance_that_never_started_has_an_outcome(serving: Serving, client: httpx.Client) -> None:
    with session(serving, "not-started") as socket:
        send_messages(socket, {"type": "input.text", "text": "a" * 5000})
        assert receive_error(socket)["code"] == "string_above_max_length"
    serving.wait_for("id=not-started status=400")
    assert get_outcome(client, "not-started.0")["outcome"] == "refused"


def test_an_unknown_voice_is_the_failure_of_the_utterance(serving: Serving, client: httpx.Client) -> None:
    with session(serving, "nobody", voice="nobody") as socket:
        send_text(socket)
        assert receive_error(socket)["code"] == "voice_not_found"
    serving.wait_for("id=nobody status=404")
    found = get_outcome(client, "nobody.0")
    assert (found["status"], found["outcome"], found["param"]) == (404, "refused", "voice")


def test_each_item_of_a_batch_has_an_outcome_like_a_request(serving: Serving, client: httpx.Client) -> None:
    grown = MetricIncrease(serving)
    good = endless(max_new_tokens=26, voice="ryan")
    items = [good, speech(voice="nobody"), good, speech(speed=9)]
    answer = client.post(f"{SPEECH}/batch", json={"items": items}, headers={"X-Request-Id": "lot"}).json()
    assert [result["request_id"] for result in answer["results"]] == ["lot.0", "lot.1", "lot.2", "lot.3"]
    serving.wait_for("id=lot ")
    found = [get_outcome(client, result["request_id"]) for result in answer["results"]]
    assert [each["outcome"] for each in found] == ["completed", "refused", "completed", "refused"]
    assert [each["status"] for each in found] == [200, 404, 200, 400]
    assert [each.get("param") for each in found] == [None, "voice", None, "speed"]
    for each in (found[0], found[2]):
        assert (each["voice"], each["characters"], each["audio"]) == ("ryan", len(good["input"]), 2.0)
        assert 0 < each["first_audio"] <= each["seconds"]
        assert each["rtf"] > 0
        assert "underruns" not in each
    whole = get_outcome(client, "lot")
    assert (whole["outcome"], whole["voice"], whole["audio"]) == ("completed", "ryan", 4.0)
    grown.update()
    assert grown("requests_total", outcome="completed", **TASK) == 2
    assert grown("requests_total", outcome="completed", task="unknown") == 0
    assert grown("requests_total", outcome="refused", task="unknown") == 2
    assert grown("audio_seconds_total", **TASK) == pytest.approx(4.0)
    assert grown("real_time_factor_count", **TASK) == 2


def test_a_refused_batch_counts_as_one_request(serving: Serving, client: httpx.Client) -> None:
    grown = MetricIncrease(serving)
    refused = client.post(f"{SPEECH}/batch", json={"items": []}, headers={"X-Request-Id": "none"})
    check(refused, 400, "items", "invalid_value")
    serving.wait_for("id=none ")
    grown.update()
    assert grown("requests_total", outcome="refused", task="unknown") == 1
    assert client.get(f"{SPEECH}/none.0").status_code == 404


def test_a_disconnect_ends_all_items_of_a_batch(serving: Serving, client: httpx.Client) -> None:
    items = [endless()] * 8
    with serving.send_speech({"items": items}, "lost", path=f"{SPEECH}/batch"):
        serving.until(busy)
        assert get_outcome(client, "lost.7")["outcome"] == "running"
    serving.wait_for("id=lost status=499")
    assert {get_outcome(client, f"lost.{index}")["outcome"] for index in range(8)} == {"client_left"}
    serving.until_idle()
