"""Outcomes: what a client can look up about its requests."""

from __future__ import annotations

import httpx
import pytest

from server.telemetry.outcomes import KEPT_SECONDS, Outcomes
from server.telemetry.record import RequestRecord
from tests.server.serving import SPEECH, Serving, endless, speech, streamed
from tests.server.test_admission import Clock
from tests.server.test_bad_input import check


def get_outcome(client: httpx.Client, name: str) -> dict:
    return client.get(f"{SPEECH}/{name}").raise_for_status().json()


def test_a_finished_request_can_be_looked_up(serving: Serving, client: httpx.Client) -> None:
    body = endless(max_new_tokens=26, voice="ryan")
    response = client.post(SPEECH, json=body, headers={"X-Request-Id": "looked-up"})
    serving.wait_for("id=looked-up ")
    found = get_outcome(client, response.headers["x-request-id"])
    assert found["object"] == "audio.speech.outcome"
    assert (found["id"], found["status"], found["outcome"]) == ("looked-up", 200, "completed")
    assert (found["task"], found["voice"], found["characters"]) == ("CustomVoice", "ryan", len(body["input"]))
    assert (found["audio"], found["finish"]) == (2.0, "length")
    assert 0 < found["first_audio"] <= found["onset"]
    assert found["first_audio"] <= found["seconds"]
    assert found["rtf"] > 0
    assert found["underruns"] >= 0
    assert "error" not in found
    assert body["input"] not in str(found)


def test_a_running_request_has_outcome_running(serving: Serving, client: httpx.Client) -> None:
    with serving.client() as other, streamed(other, endless(), **{"X-Request-Id": "still-running"}) as response:
        pieces = response.iter_raw()
        assert next(pieces)
        found = get_outcome(client, "still-running")
        assert (found["outcome"], found["status"]) == ("running", 200)
    serving.wait_for("id=still-running status=499")
    assert get_outcome(client, "still-running")["outcome"] == "client_left"


def test_a_refusal_has_its_reason(serving: Serving, client: httpx.Client) -> None:
    client.post(SPEECH, json=speech(language="klingon"), headers={"X-Request-Id": "refused-once"})
    serving.wait_for("id=refused-once ")
    found = get_outcome(client, "refused-once")
    assert (found["status"], found["outcome"]) == (400, "refused")
    assert (found["error"], found["param"]) == ("invalid_value", "language")


@pytest.mark.parametrize("name", ["never-made", "a" * 500, "%00", "..", "caf\u00e9"])
def test_an_unknown_id_is_a_404(client: httpx.Client, name: str) -> None:
    path = f"{SPEECH}/{name}" if name != ".." else f"{SPEECH}/%2e%2e"
    response = client.get(path)
    assert response.status_code == 404
    assert response.json()["error"]["code"] in ("request_not_found", "not_found")
    assert len(response.json()["error"]["message"]) < 200


def test_only_speech_requests_have_outcomes(serving: Serving, client: httpx.Client) -> None:
    client.get("/v1/models", headers={"X-Request-Id": "no-speech"})
    serving.wait_for("id=no-speech ")
    check(client.get(f"{SPEECH}/no-speech"), 404, "request_id", "request_not_found")


def test_an_outcome_expires_after_an_hour() -> None:
    clock = Clock()
    outcomes = Outcomes(10, clock)
    record = RequestRecord("one", "POST", SPEECH)
    outcomes.add_running(record)
    assert outcomes.find("one") is record
    outcomes.ended(record)
    clock.now += KEPT_SECONDS - 1
    assert outcomes.find("one") is record
    clock.now += 1
    assert outcomes.find("one") is None


def test_the_number_of_outcomes_is_bounded_and_the_oldest_is_dropped() -> None:
    outcomes = Outcomes(2)
    for name in ("one", "two", "three"):
        outcomes.ended(RequestRecord(name, "POST", SPEECH))
    assert [outcomes.find(name) is not None for name in ("one", "two", "three")] == [False, True, True]


def test_the_latest_of_two_requests_with_one_id_is_kept() -> None:
    outcomes = Outcomes(5)
    first, second = RequestRecord("same", "POST", SPEECH), RequestRecord("same", "POST", SPEECH)
    outcomes.add_running(first)
    outcomes.add_running(second)
    outcomes.ended(first)
    assert outcomes.find("same") is second
    outcomes.ended(second)
    assert outcomes.find("same") is second
