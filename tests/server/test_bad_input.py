"""Invalid requests: each with its status, ``param`` and ``code``."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
from pydantic import ValidationError

from server.request_models.speech import SpeechBody
from tests.server.recordings import data_url, tone
from tests.server.serving import SPEECH, speech

REFERENCE = data_url(tone(1.5))
BAD = "invalid_value"
TYPE = "invalid_type"
NOT_YET = "not_supported"

BAD_FIELDS: list[tuple[dict[str, Any], str, str]] = [
    ({"input": ""}, "input", BAD),
    ({"input": " \n\u200b\u0000\ufeff"}, "input", BAD),
    ({"input": "  \n\t "}, "input", BAD),
    ({"input": "a" * 4097, "split": "none"}, "input", "string_above_max_length"),
    ({"input": None}, "input", "missing_required_parameter"),
    ({"input": 5}, "input", TYPE),
    ({"input": ["a"]}, "input[0]", TYPE),
    ({"input": []}, "input", BAD),
    ({"model": 5}, "model", TYPE),
    ({"voice": 5}, "voice", TYPE),
    ({"model": "a" * 257}, "model", "string_above_max_length"),
    ({"voice": "a" * 257}, "voice", "string_above_max_length"),
    ({"voice": {}}, "voice.id", "missing_required_parameter"),
    ({"voice": {"id": ""}}, "voice.id", BAD),
    ({"voice": {"id": "a" * 257}}, "voice.id", "string_above_max_length"),
    ({"voice": {"id": "vivian", "name": "x"}}, "voice.name", "unknown_parameter"),
    ({"instructions": "a" * 2001}, "instructions", "string_above_max_length"),
    ({"instructions": 5}, "instructions", TYPE),
    ({"response_format": "ogg"}, "response_format", BAD),
    ({"response_format": 5}, "response_format", BAD),
    ({"speed": 0.2}, "speed", BAD),
    ({"speed": 4.1}, "speed", BAD),
    ({"speed": "fast"}, "speed", TYPE),
    ({"stream": "yes"}, "stream", TYPE),
    ({"stream_format": "hls"}, "stream_format", BAD),
    ({"stream_format": "sse", "stream": False}, "stream_format", BAD),
    ({"task_type": "Sing"}, "task_type", BAD),
    ({"task_type": "VoiceDesign"}, "task_type", "unsupported_task"),
    ({"task_type": "Base"}, "ref_audio", "missing_required_parameter"),
    ({"task_type": "CustomVoice", "ref_audio": REFERENCE}, "task_type", BAD),
    ({"task_type": "CustomVoice", "speaker_embedding": [0.1]}, "task_type", BAD),
    ({"language": "klingon"}, "language", BAD),
    ({"language": 5}, "language", TYPE),
    ({"language": "a" * 257}, "language", "string_above_max_length"),
    ({"ref_audio": "http://127.0.0.1:9/voice.wav"}, "ref_audio", "reference_url_refused"),
    ({"ref_audio": "http://user:secret@a.example/voice.wav"}, "ref_audio", "reference_url_refused"),
    ({"ref_audio": "ftp://a.example/voice.wav"}, "ref_audio", NOT_YET),
    ({"ref_audio": "voice.wav"}, "ref_audio", NOT_YET),
    ({"ref_audio": "/etc/passwd"}, "ref_audio", NOT_YET),
    ({"ref_audio": "file:///etc/passwd"}, "ref_audio", NOT_YET),
    ({"ref_audio": "data:audio/wav;base64,!!!!"}, "ref_audio", BAD),
    ({"ref_audio": "data:audio/wav;base64," + base64.b64encode(b"noise").decode()}, "ref_audio", BAD),
    ({"ref_audio": data_url(tone(0.5))}, "ref_audio", "reference_too_short"),
    ({"ref_audio": data_url(tone(31))}, "ref_audio", "reference_too_long"),
    ({"ref_audio": data_url(np.zeros(32_000, np.float32))}, "ref_audio", "reference_silent"),
    ({"ref_audio": REFERENCE, "speaker_embedding": [0.1]}, "speaker_embedding", BAD),
    ({"ref_audio": REFERENCE, "ref_text": "a" * 4097}, "ref_text", "string_above_max_length"),
    ({"ref_text": "hello"}, "ref_audio", "missing_required_parameter"),
    ({"x_vector_only_mode": True}, "ref_audio", "missing_required_parameter"),
    ({"x_vector_only_mode": 1}, "x_vector_only_mode", TYPE),
    ({"speaker_embedding": []}, "speaker_embedding", BAD),
    ({"speaker_embedding": [0.1, 0.2]}, "speaker_embedding", BAD),
    ({"speaker_embedding": ["a"]}, "speaker_embedding", TYPE),
    ({"speaker_embedding": 0.5}, "speaker_embedding", TYPE),
    ({"speaker_embedding": [0.0] * 20_000}, "speaker_embedding", BAD),
    ({"voices": []}, "voices", BAD),
    ({"voices": [{"voice": "ryan"}] * 65}, "voices", BAD),
    ({"voices": "ryan"}, "voices", TYPE),
    ({"voices": [{"weight": 1}]}, "voices", BAD),
    ({"voices": [{"voice": "ryan", "speaker_embedding": [0.1]}]}, "voices", BAD),
    ({"voices": [{"voice": "ryan", "share": 1}]}, "voices.share", "unknown_parameter"),
    ({"voices": [{"voice": "ryan", "weight": -1}]}, "voices.weight", BAD),
    ({"voices": [{"voice": "ryan", "weight": "half"}]}, "voices.weight", TYPE),
    ({"voices": [{"voice": "ryan", "weight": 0}]}, "voices", BAD),
    ({"voices": [{"voice": {"id": ""}}]}, "voices.voice", BAD),
    ({"voices": [{"speaker_embedding": [0.1, 0.2]}]}, "voices", BAD),
    ({"voices": [{"voice": "ryan"}], "ref_audio": REFERENCE}, "voices", BAD),
    ({"voices": [{"voice": "ryan"}], "speaker_embedding": [0.1]}, "voices", BAD),
    ({"voices": [{"voice": "ryan"}], "task_type": "CustomVoice"}, "task_type", BAD),
    ({"temperature": -0.1}, "temperature", BAD),
    ({"temperature": 0.001}, "temperature", BAD),
    ({"temperature": 11}, "temperature", BAD),
    ({"temperature": "hot"}, "temperature", TYPE),
    ({"top_k": -2}, "top_k", BAD),
    ({"top_k": 2**40}, "top_k", BAD),
    ({"top_k": 1.5}, "top_k", TYPE),
    ({"top_p": 0}, "top_p", BAD),
    ({"top_p": 1.01}, "top_p", BAD),
    ({"repetition_penalty": 0}, "repetition_penalty", BAD),
    ({"subtalker_temperature": -1}, "subtalker_temperature", BAD),
    ({"subtalker_top_k": "many"}, "subtalker_top_k", TYPE),
    ({"subtalker_top_p": 2}, "subtalker_top_p", BAD),
    ({"max_new_tokens": 1}, "max_new_tokens", BAD),
    ({"max_new_tokens": True}, "max_new_tokens", TYPE),
    ({"seed": -2}, "seed", BAD),
    ({"seed": 2**63}, "seed", BAD),
    ({"seed": 10**300}, "seed", BAD),
    ({"seed": "x"}, "seed", TYPE),
    ({"sample_rate": 7_999}, "sample_rate", BAD),
    ({"sample_rate": 48_001}, "sample_rate", BAD),
    ({"sample_rate": 16_000.5}, "sample_rate", TYPE),
    ({"split": "word"}, "split", BAD),
    ({"split": "sentence", "input": "a" * 200_001}, "input", "string_above_max_length"),
    ({"split": "sentence", "stream": False, "input": "a" * 4097}, "input", "string_above_max_length"),
    ({"non_streaming_mode": "no"}, "non_streaming_mode", TYPE),
    ({"initial_codec_chunk_frames": -1}, "initial_codec_chunk_frames", BAD),
    ({"extra_params": []}, "extra_params", TYPE),
    ({"extra_params": {"top_k": "x"}}, "extra_params.top_k", TYPE),
    ({"extra_params": {"topk": 5}}, "extra_params.topk", "unknown_parameter"),
    ({"tempreature": 0.5}, "tempreature", "unknown_parameter"),
    ({"Input": "hi"}, "Input", "unknown_parameter"),
]


def check(response: httpx.Response, status: int, param: str | None, code: str) -> dict[str, Any]:
    """Assert status, ``param``, ``code`` and the common error format; return the error."""
    body = response.json()
    assert (response.status_code, body["error"]["param"], body["error"]["code"]) == (status, param, code), body
    assert list(body) == ["error"]
    assert sorted(body["error"]) == ["code", "message", "param", "type"]
    assert response.headers["x-request-id"]
    error: dict[str, Any] = body["error"]
    return error


@pytest.mark.parametrize(("fields", "param", "code"), BAD_FIELDS, ids=lambda value: str(value)[:60])
def test_an_invalid_field_is_a_400_that_names_it(
    client: httpx.Client, fields: dict[str, Any], param: str, code: str
) -> None:
    error = check(client.post(SPEECH, json=speech(**fields)), 400, param, code)
    assert error["type"] == "invalid_request_error"
    assert param in error["message"]


def test_a_missing_input_is_named(client: httpx.Client) -> None:
    check(client.post(SPEECH, json={}), 400, "input", "missing_required_parameter")


def test_an_unknown_voice_is_a_404_that_lists_the_voices(client: httpx.Client) -> None:
    for name in ("nobody", "../../etc/passwd"):
        error = check(client.post(SPEECH, json=speech(voice=name)), 404, "voice", "voice_not_found")
        assert "vivian" in error["message"]
        assert f"voice '{name}'" in error["message"]
    check(client.post(SPEECH, json=speech(voice={"id": "nobody"})), 404, "voice", "voice_not_found")


def test_an_unknown_model_is_a_404_that_names_the_model(client: httpx.Client) -> None:
    error = check(client.post(SPEECH, json=speech(model="gpt-9")), 404, "model", "model_not_found")
    assert "pocket" in error["message"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b"null",
        b"\xff\xfe",
        b'{"input": "\xff"}',
        b'{"input": "\\ud8"}',
        b'{"input": "a", "speed": NaN}',
        b'{"input": "a", "speed": Infinity}',
        b'{"input": "a", "seed": ' + b"9" * 5000 + b"}",
        b"[" * 100_000,
    ],
    ids=lambda value: repr(value[:30]),
)
def test_a_body_that_is_not_a_json_object_is_a_400(client: httpx.Client, content: bytes) -> None:
    response = client.post(SPEECH, content=content, headers={"Content-Type": "application/json"})
    check(response, 400, None, "invalid_json")


def test_a_long_unknown_field_name_is_truncated_in_the_error(client: httpx.Client) -> None:
    response = client.post(SPEECH, json=speech(**{"x" * 100_000: 1}))
    check(response, 400, "x" * 64 + "...", "unknown_parameter")
    assert len(response.content) < 500


def many_fields() -> bytes:
    return b",".join(b'"%x": 0' % number for number in range(1_000_000))


@pytest.mark.parametrize(
    "values",
    [
        lambda: b'"voices": [' + b"[]," * 5_000_000 + b"[]]",
        many_fields,
        lambda: b'"voice": {' + many_fields() + b"}",
    ],
    ids=["lists", "fields", "nested fields"],
)
def test_a_body_with_too_many_values_is_refused_before_parsing(
    client: httpx.Client, values: Callable[[], bytes]
) -> None:
    content = b'{"input": "a", "response_format": "pcm", ' + values() + b"}"
    response = client.post(SPEECH, content=content, headers={"Content-Type": "application/json"})
    check(response, 413, None, "request_too_large")


def test_validation_stops_at_the_first_error() -> None:
    """Each error is an object with a message: 100,000 of them take seconds."""
    for fields in (
        {"voices": [[]] * 60},
        {"speaker_embedding": ["x"] * 10_000},
        {str(number): 0 for number in range(50_000)},
        {"voice": {str(number): 0 for number in range(50_000)} | {"id": "x"}},
        {"extra_params": {str(number): 0 for number in range(50_000)}},
    ):
        with pytest.raises(ValidationError) as refusal:
            SpeechBody.model_validate({"input": "a", **fields})
        assert refusal.value.error_count() == 1


def test_refuses_numbers_that_overflow_a_float(client: httpx.Client) -> None:
    for field in (b'"speed": 1e400', b'"temperature": 1e999', b'"speaker_embedding": [1e400]'):
        content = b'{"input": "a", "response_format": "pcm", ' + field + b"}"
        response = client.post(SPEECH, content=content, headers={"Content-Type": "application/json"})
        check(response, 400, json.loads(b"{" + field.split(b":")[0] + b": 1}").popitem()[0], BAD)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_another_content_type_is_a_415(client: httpx.Client, kind: str) -> None:
    response = client.post(SPEECH, content=b"{}", headers={"Content-Type": kind})
    check(response, 415, None, "unsupported_media_type")


def test_a_missing_content_type_is_a_415(client: httpx.Client) -> None:
    check(client.post(SPEECH, content=json.dumps(speech()).encode()), 415, None, "unsupported_media_type")


def test_a_compressed_body_is_a_415(client: httpx.Client) -> None:
    check(client.post(SPEECH, json=speech(), headers={"Content-Encoding": "gzip"}), 415, None, "unsupported_media_type")
    assert client.post(SPEECH, json=speech(), headers={"Content-Encoding": "identity"}).status_code == 200


def test_accepts_all_json_media_types(client: httpx.Client) -> None:
    content = json.dumps(speech(max_new_tokens=4)).encode()
    for kind in ("application/json; charset=utf-8", "Application/JSON", "application/problem+json"):
        assert client.post(SPEECH, content=content, headers={"Content-Type": kind}).status_code == 200


def test_an_unknown_route_is_a_404(client: httpx.Client) -> None:
    for path in ("/v1/audio/nothing", "/nothing", "/v1/audio/speech/some-id/more"):
        check(client.get(path), 404, None, "not_found")


def test_a_wrong_method_is_a_405_that_names_the_allowed_one(client: httpx.Client) -> None:
    response = client.get(SPEECH)
    check(response, 405, None, "method_not_allowed")
    assert response.headers["allow"] == "POST"
