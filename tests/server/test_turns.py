"""Several speakers in one request: ``input`` as a list of turns."""

from __future__ import annotations

import base64
from typing import Any

import httpx
import numpy as np
import pytest

from server.long_text.segments import TURN_PAUSE, seed_of
from tests.server.serving import SPEECH, endless, speech, streamed
from tests.server.test_bad_input import check
from tests.server.test_sse import parse_events

FRAMES = 5
TURNS = [{"voice": "vivian", "input": "Good morning."}, {"voice": "ryan", "input": "Hello to you."}]


def turns_request(turns: list[dict[str, str]] = TURNS, **fields: object) -> dict[str, Any]:
    return endless(input=turns, **{"max_new_tokens": FRAMES + 1, **fields})


def test_each_turn_has_its_voice_and_a_pause_before_it(client: httpx.Client) -> None:
    alone = [
        client.post(SPEECH, json=endless(**turn, max_new_tokens=FRAMES + 1, seed=seed_of(7, number))).content
        for number, turn in enumerate(TURNS)
    ]
    pause = bytes(2 * round(TURN_PAUSE * 24_000))
    assert client.post(SPEECH, json=turns_request()).content == alone[0] + pause + alone[1]


def test_a_turn_without_a_voice_has_the_voice_of_the_request(client: httpx.Client) -> None:
    named = client.post(SPEECH, json=turns_request()).content
    second = [TURNS[0], {"input": TURNS[1]["input"]}]
    assert client.post(SPEECH, json=turns_request(second, voice="ryan")).content == named
    assert client.post(SPEECH, json=turns_request(second, voice="serena")).content != named


def test_a_named_turn_takes_precedence_over_an_embedding_of_the_request(client: httpx.Client) -> None:
    named = client.post(SPEECH, json=turns_request()).content
    width = client.get("/v1/models").json()["data"][0]["embedding_width"]
    for fields in ({}, {"x_vector_only_mode": True}):
        cloned = turns_request(speaker_embedding=[0.5] * width, **fields)
        assert client.post(SPEECH, json=cloned).content == named


@pytest.mark.parametrize(
    ("turns", "param", "code"),
    [
        ([*TURNS, {"voice": "nobody", "input": "Hello."}], "input[2].voice", "voice_not_found"),
        ([*TURNS, {"voice": "ryan"}], "input[2].input", "missing_required_parameter"),
        ([*TURNS, {"input": " "}], "input[2].input", "invalid_value"),
        ([*TURNS, {"input": "Hello.", "speed": 2.0}], "input[2].speed", "unknown_parameter"),
        ([*TURNS, {"input": "Hello.", "language": "klingon"}], "input[2].language", "invalid_value"),
        ([*TURNS, {"input": 5}], "input[2].input", "invalid_type"),
        ([*TURNS, "Hello."], "input[2]", "invalid_type"),
        ([*TURNS, {"input": "a" * 4097}], "input", "string_above_max_length"),
        ([], "input", "invalid_value"),
        ([{"input": "a"}] * 257, "input", "invalid_value"),
    ],
)
def test_an_error_names_the_turn(client: httpx.Client, turns: list[Any], param: str, code: str) -> None:
    response = client.post(SPEECH, json=speech(input=turns, stream=False))
    check(response, 404 if code == "voice_not_found" else 400, param, code)
    if param.startswith("input["):
        assert param in response.json()["error"]["message"]


def test_an_error_in_the_voice_of_the_request_names_its_own_field(client: httpx.Client) -> None:
    response = client.post(SPEECH, json=speech(input=[*TURNS, {"input": "Hello."}], ref_audio="data:,nothing"))
    check(response, 400, "ref_audio", response.json()["error"]["code"])


def test_usage_and_outcome_cover_all_turns(client: httpx.Client) -> None:
    body = turns_request(stream_format="sse")
    with streamed(client, body, **{"X-Request-Id": "two-speakers"}) as response:
        *_, done = parse_events(response.iter_lines())
    assert done["usage"]["output_tokens"] == 2 * FRAMES
    outcome = client.get(f"{SPEECH}/two-speakers").json()
    assert outcome["turns"] == 2
    assert outcome["characters"] == sum(len(turn["input"]) for turn in TURNS)
    assert "voice" not in outcome


def test_batch_items_can_have_turns(client: httpx.Client) -> None:
    items = {"items": [{"input": TURNS}, {"input": [{"voice": "nobody", "input": "Hello."}]}]}
    common = {name: value for name, value in turns_request().items() if name != "input"}
    good, bad = client.post(f"{SPEECH}/batch", json=items | common).json()["results"]
    audio = base64.b64decode(good["audio_data"])
    assert audio == client.post(SPEECH, json=turns_request(stream=False)).content
    assert np.frombuffer(audio, "<i2").size == 2 * FRAMES * 1920 + TURN_PAUSE * 24_000
    assert bad["error"]["param"] == "input[0].voice"
