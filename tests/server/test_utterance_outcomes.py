"""Utterances that are no requests of their own, live ones and a batch's: told of, and counted, as if they were."""

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
from tests.server.test_outcomes import outcome

TASK = {"task": "CustomVoice"}


def test_a_live_utterance_is_looked_up_like_a_request(serving: Serving, client: httpx.Client) -> None:
    with session(serving, "chat", **LOOPING, max_new_tokens=26) as socket:
        for _ in range(2):
            send_utterance(socket, TEXT)
            _, (start, _) = receive_utterance(socket)
        assert start["request_id"] == "chat.1"
        serving.wait_for("id=chat.1 ")
        found = outcome(client, "chat.1")
        assert outcome(client, "chat")["outcome"] == "running"
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
    whole = outcome(client, "chat")
    assert (whole["status"], whole["characters"], whole["audio"], whole["voice"]) == (101, 2 * len(TEXT), 4.0, "vivian")
    assert "first_audio" not in whole


def test_its_id_comes_with_the_handshake(serving: Serving) -> None:
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


def test_an_utterance_that_its_client_cancels_is_complete(serving: Serving, client: httpx.Client) -> None:
    with session(serving, "barged", max_new_tokens=2000) as socket:
        send_text(socket)
        receive_first_audio(socket)
        assert outcome(client, "barged.0")["outcome"] == "running"
        send_messages(socket, {"type": "cancel"})
        receive_until_event(socket)
        found = outcome(client, "barged.0")
    assert (found["outcome"], found["finish"]) == ("completed", "cancelled")
    assert found["audio"] > 0


def test_an_utterance_whose_listener_vanishes_is_left(serving: Serving, client: httpx.Client) -> None:
    grown = MetricIncrease(serving)
    with session(serving, "vanished", max_new_tokens=2000) as socket:
        send_text(socket)
        receive_first_audio(socket)
        socket.socket.close()
    serving.wait_for("id=vanished status=499 outcome=client_left")
    assert [outcome(client, name)["outcome"] for name in ("vanished", "vanished.0")] == ["client_left"] * 2
    grown.update()
    assert grown("requests_total", outcome="client_left", **TASK) == 1
    assert grown("live_sessions_total", outcome="client_left") == 1


@pytest.mark.parametrize(
    ("wrong", "code"),
    [({"type": "shout"}, "invalid_value"), ({"type": "input.text", "text": "a" * 5000}, "string_above_max_length")],
)
def test_what_ends_a_session_ends_what_it_says(serving: Serving, client: httpx.Client, wrong: dict, code: str) -> None:
    name = f"wrong-{code}"
    with session(serving, name, max_new_tokens=2000) as socket:
        send_messages(socket, {"type": "input.text", "text": "One two"}, wrong)
        assert receive_error(socket)["code"] == code
    serving.wait_for(f"id={name} status=400")
    for part in (name, f"{name}.0"):
        found = outcome(client, part)
        assert (found["status"], found["outcome"], found["error"]) == (400, "refused", code)


def test_an_utterance_that_never_began_has_an_end_too(serving: Serving, client: httpx.Client) -> None:
    with session(serving, "stillborn") as socket:
        send_messages(socket, {"type": "input.text", "text": "a" * 5000})
        assert receive_error(socket)["code"] == "string_above_max_length"
    serving.wait_for("id=stillborn status=400")
    assert outcome(client, "stillborn.0")["outcome"] == "refused"


def test_a_voice_that_is_not_there_is_the_utterances_failure(serving: Serving, client: httpx.Client) -> None:
    with session(serving, "nobody", voice="nobody") as socket:
        send_text(socket)
        assert receive_error(socket)["code"] == "voice_not_found"
    serving.wait_for("id=nobody status=404")
    found = outcome(client, "nobody.0")
    assert (found["status"], found["outcome"], found["param"]) == (404, "refused", "voice")


def test_each_item_of_a_batch_is_looked_up_and_counted_like_a_request(serving: Serving, client: httpx.Client) -> None:
    grown = MetricIncrease(serving)
    good = endless(max_new_tokens=26, voice="ryan")
    items = [good, speech(voice="nobody"), good, speech(speed=9)]
    answer = client.post(f"{SPEECH}/batch", json={"items": items}, headers={"X-Request-Id": "lot"}).json()
    assert [result["request_id"] for result in answer["results"]] == ["lot.0", "lot.1", "lot.2", "lot.3"]
    serving.wait_for("id=lot ")
    found = [outcome(client, result["request_id"]) for result in answer["results"]]
    assert [each["outcome"] for each in found] == ["completed", "refused", "completed", "refused"]
    assert [each["status"] for each in found] == [200, 404, 200, 400]
    assert [each.get("param") for each in found] == [None, "voice", None, "speed"]
    for each in (found[0], found[2]):
        assert (each["voice"], each["characters"], each["audio"]) == ("ryan", len(good["input"]), 2.0)
        assert 0 < each["first_audio"] <= each["seconds"]
        assert each["rtf"] > 0
        assert "underruns" not in each
    whole = outcome(client, "lot")
    assert (whole["outcome"], whole["voice"], whole["audio"]) == ("completed", "ryan", 4.0)
    grown.update()
    assert grown("requests_total", outcome="completed", **TASK) == 2
    assert grown("requests_total", outcome="completed", task="unknown") == 0
    assert grown("requests_total", outcome="refused", task="unknown") == 2
    assert grown("audio_seconds_total", **TASK) == pytest.approx(4.0)
    assert grown("real_time_factor_count", **TASK) == 2


def test_a_batch_that_is_refused_as_a_whole_counts_as_one(serving: Serving, client: httpx.Client) -> None:
    grown = MetricIncrease(serving)
    refused = client.post(f"{SPEECH}/batch", json={"items": []}, headers={"X-Request-Id": "none"})
    check(refused, 400, "items", "invalid_value")
    serving.wait_for("id=none ")
    grown.update()
    assert grown("requests_total", outcome="refused", task="unknown") == 1
    assert client.get(f"{SPEECH}/none.0").status_code == 404


def test_when_its_client_leaves_no_item_of_a_batch_stays_open(serving: Serving, client: httpx.Client) -> None:
    items = [endless()] * 8
    with serving.send_speech({"items": items}, "lost", path=f"{SPEECH}/batch"):
        serving.until(busy)
        assert outcome(client, "lost.7")["outcome"] == "running"
    serving.wait_for("id=lost status=499")
    assert {outcome(client, f"lost.{index}")["outcome"] for index in range(8)} == {"client_left"}
    serving.until_idle()
