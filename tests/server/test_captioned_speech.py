"""Kokoro-FastAPI's captioned speech: audio and times of words as JSON. The checkpoint is random: words fit noise."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import pytest

from tests.server.serving import SPEECH, TIMEOUT
from tests.server.test_bad_input import check
from tests.server.test_word_times import check_words

CAPTIONED = "/dev/captioned_speech"
REQUEST = {"model": "tts-1", "input": "One, two three!", "voice": "ryan", "speed": 1.0, "response_format": "pcm"}
REPRODUCIBLE = {**REQUEST, "seed": 7, "max_new_tokens": 24, "language": "en"}


def words_of(chunk: dict[str, Any]) -> list[dict[str, Any]]:
    """The words in the format of this server's own events."""
    return [
        {"word": each["word"], "start": each["start_time"], "end": each["end_time"]} for each in chunk["timestamps"]
    ]


def test_a_stream_has_an_object_in_each_line(client: httpx.Client) -> None:
    audio, words = b"", []
    with client.stream("POST", CAPTIONED, json=REPRODUCIBLE) as response:
        assert response.headers["content-type"] == "application/json"
        for line in response.iter_lines():
            chunk = json.loads(line)
            assert (list(chunk), chunk["audio_format"]) == (["audio", "audio_format", "timestamps"], "audio/pcm")
            audio += base64.b64decode(chunk["audio"])
            words += words_of(chunk)
    assert audio
    check_words(words, len(audio) // 2)


@pytest.mark.parametrize("fields", [{}, {"return_timestamps": False}, {"lang_code": "a", "volume_multiplier": 1.0}])
def test_a_whole_response_is_one_object(client: httpx.Client, fields: dict[str, Any]) -> None:
    response = client.post(CAPTIONED, json={**REPRODUCIBLE, "response_format": "wav", "stream": False, **fields})
    chunk = response.raise_for_status().json()
    audio = base64.b64decode(chunk["audio"])
    assert (audio[:4], int.from_bytes(audio[4:8], "little")) == (b"RIFF", len(audio) - 8)
    check_words(words_of(chunk), (len(audio) - 44) // 2)
    if fields.get("return_timestamps") is False:
        assert chunk["timestamps"] == []


def test_refuses_what_the_speech_endpoint_refuses(client: httpx.Client) -> None:
    check(client.post(CAPTIONED, json={**REQUEST, "voice": "af_heart"}), 404, "voice", "voice_not_found")
    check(client.post(CAPTIONED, json={**REQUEST, "stream_format": "sse"}), 400, "stream_format", "unknown_parameter")
    answer = client.post(CAPTIONED, json={**REQUEST, "return_timestamps": "yes"})
    check(answer, 400, "return_timestamps", "invalid_type")
    check(client.post(CAPTIONED, json={"voice": "ryan"}), 400, "input", "missing_required_parameter")


def test_the_outcome_of_captioned_speech_can_be_looked_up(client: httpx.Client) -> None:
    body = {**REPRODUCIBLE, "max_new_tokens": 3}
    client.post(CAPTIONED, json=body, headers={"X-Request-Id": "captioned"}, timeout=TIMEOUT).raise_for_status()
    assert client.get(f"{SPEECH}/captioned").json()["voice"] == "ryan"
