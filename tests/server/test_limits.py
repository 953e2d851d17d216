"""Limits of requests, concurrency and settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.server.serving import SPEECH, ScriptedServing, Serving, endless, speech, streamed, write_config
from tests.server.test_bad_input import check


@pytest.fixture(scope="module")
def strict(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with low limits that runs one request at a time."""
    limits = {
        "max_running": 1,
        "max_waiting": 0,
        "max_body_bytes": 4096,
        "max_input_chars": 20,
        "max_instructions_chars": 5,
    }
    config = write_config(
        tmp_path_factory.mktemp("strict"),
        pocket,
        limits=limits,
        ignored_fields=["mood"],
        model_aliases=["mine"],
        default_voice="nobody",
    )
    with ScriptedServing(config) as server:
        yield server.ready()


def test_a_full_server_answers_429_with_retry_after(strict: Serving) -> None:
    with strict.client() as client, streamed(client, endless(voice="ryan")) as response:
        pieces = response.iter_raw()
        assert next(pieces)
        with strict.client() as other:
            refused = other.post(SPEECH, json=speech(voice="ryan"))
            error = check(refused, 429, None, "rate_limit_exceeded")
            assert error["type"] == "rate_limit_error"
            assert int(refused.headers["retry-after"]) > 0
    strict.until_idle()
    with strict.client() as client:
        assert client.post(SPEECH, json=speech(voice="ryan")).status_code == 200


def test_a_refused_request_releases_its_place(strict: Serving) -> None:
    with strict.client() as client:
        for _ in range(3):
            check(client.post(SPEECH, json=speech(voice="nobody")), 404, "voice", "voice_not_found")
            check(client.post(SPEECH, json=speech(voice="ryan", language="x")), 400, "language", "invalid_value")
        assert strict.stats()["requests"] == 0


def test_a_body_with_a_content_length_is_bounded(strict: Serving) -> None:
    with strict.client() as client:
        check(client.post(SPEECH, json=speech(input="a" * 5000)), 413, None, "request_too_large")


def test_a_chunked_body_is_bounded(strict: Serving) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'{"input": "'
        for _ in range(5):
            yield b"a" * 1000

    with strict.client() as client:
        response = client.post(SPEECH, content=chunks(), headers={"Content-Type": "application/json"})
        check(response, 413, None, "request_too_large")


def test_the_length_of_texts_is_limited_by_the_settings(strict: Serving) -> None:
    with strict.client() as client:
        long_input = client.post(SPEECH, json=speech(input="a" * 21, split="none"))
        check(long_input, 400, "input", "string_above_max_length")
        long_instructions = client.post(SPEECH, json=speech(instructions="a" * 6))
        check(long_instructions, 400, "instructions", "string_above_max_length")


def test_the_settings_define_ignored_fields_and_model_aliases(strict: Serving) -> None:
    with strict.client() as client:
        valid = speech(voice="ryan", mood="good", model="mine")
        assert client.post(SPEECH, json=valid).status_code == 200
        assert client.post(SPEECH, json=speech(voice="ryan", lang_code="a")).status_code == 200
        check(client.post(SPEECH, json=speech(moods="good")), 400, "moods", "unknown_parameter")
        assert client.post(SPEECH, json=speech(voice="ryan", model="tts-1")).status_code == 200
        unknown = check(client.post(SPEECH, json=speech(model="yours")), 404, "model", "model_not_found")
        assert "'pocket'" in unknown["message"]
        assert "model_aliases" in unknown["message"]


def test_an_unknown_default_voice_is_a_404(strict: Serving) -> None:
    with strict.client() as client:
        error = check(client.post(SPEECH, json=speech()), 404, "voice", "voice_not_found")
        assert "nobody" in error["message"]


def test_a_loading_server_is_healthy_but_not_ready(pocket: Path, tmp_path: Path) -> None:
    with Serving(write_config(tmp_path, pocket)) as server, httpx.Client(base_url=server.url) as client:
        response = client.get("/ready")
        check(response, 503, None, "engine_unavailable")
        assert int(response.headers["retry-after"]) > 0
        assert client.get("/health").status_code == 200
        for path, body in ((SPEECH, speech()), (f"{SPEECH}/batch", {"items": [speech()]})):
            check(client.post(path, json=body), 503, None, "engine_unavailable")
        assert "sonant_engine_up" in client.get("/metrics").text
        server.ready()
        assert client.get("/ready").status_code == 200
        assert 'sonant_engine_up{engine="0",model="pocket"} 1.0' in client.get("/metrics").text
