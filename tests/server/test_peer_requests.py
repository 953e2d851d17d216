"""Requests as clients of other speech servers send them, with every field of the peer's API that they may contain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from server.request_models.field_names import CLIENT_FIELDS
from tests.docs.blocks import ROOT
from tests.server.scripted_server import TEXT, ScriptedServer, scripted_server
from tests.support.scripted_engine import ScriptedEngine, info

NORMALIZATION = {"normalize": True, "unit_normalization": False, "url_normalization": True}
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "OpenAI, Python and JavaScript": (
        "/v1/audio/speech",
        {"model": "gpt-4o-mini-tts", "voice": "alloy", "input": TEXT, "instructions": "Calm.", "stream_format": "sse"},
    ),
    "Kokoro-FastAPI": (
        "/v1/audio/speech",
        {
            "model": "kokoro",
            "input": TEXT,
            "voice": "af_heart(2)+am_adam(1)",
            "response_format": "mp3",
            "download_format": None,
            "speed": 1.0,
            "stream": True,
            "return_download_link": False,
            "lang_code": "a",
            "volume_multiplier": 1.0,
            "normalization_options": NORMALIZATION,
        },
    ),
    "Kokoro-FastAPI, captioned": (
        "/dev/captioned_speech",
        {
            "model": "kokoro",
            "input": TEXT,
            "voice": "af_heart",
            "response_format": "wav",
            "speed": 1.0,
            "stream": False,
            "return_timestamps": True,
            "lang_code": None,
            "volume_multiplier": 1.0,
            "normalization_options": NORMALIZATION,
        },
    ),
    "speaches": (
        "/v1/audio/speech",
        {
            "model": "speaches-ai/Kokoro-82M-v1.0-ONNX",
            "input": TEXT,
            "voice": "af_heart",
            "response_format": "mp3",
            "speed": 1.0,
            "stream_format": "audio",
            "sample_rate": 24000,
        },
    ),
    "vllm-omni": (
        "/v1/audio/speech",
        {
            "input": TEXT,
            "speaker": "Ava",
            "instructions": "",
            "response_format": "wav",
            "task_type": "CustomVoice",
            "language": "English",
            "max_new_tokens": 2048,
            "x_vector_only_mode": False,
            "initial_codec_chunk_frames": 1,
            "non_streaming_mode": True,
            "word_timestamps": False,
            "extra_params": {"temperature": 0.9, "top_k": 50},
        },
    ),
    "vllm-omni, batch": (
        "/v1/audio/speech/batch",
        {"items": [{"input": TEXT, "speaker": "ava"}], "response_format": "wav", "language": "Auto"},
    ),
    "sglang-omni": (
        "/v1/audio/speech",
        {"input": TEXT, "voice": "ava", "stream_codec_output": True, "stage_params": {}, "seed": None, "stream": True},
    ),
    "LocalAI": (
        "/v1/audio/speech",
        {
            "model": "tts-en",
            "input": TEXT,
            "voice": "ava",
            "backend": "piper",
            "language": "en",
            "response_format": "wav",
        },
    ),
    "LocalAI, ElevenLabs' route": ("/v1/text-to-speech/ava", {"text": TEXT, "model_id": "tts-en"}),
    "Chatterbox": (
        "/v1/audio/speech",
        {
            "input": TEXT,
            "voice": "alloy",
            "exaggeration": 0.5,
            "cfg_weight": 0.5,
            "temperature": 0.8,
            "streaming_chunk_size": 200,
            "streaming_strategy": "sentence",
        },
    ),
    "LiteLLM": (
        "/audio/speech",
        {"model": "tts-1", "input": TEXT, "voice": "alloy", "metadata": {"trace": "x"}, "user": "someone"},
    ),
}
"""The peer or client, with the path and the body."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedServer]:
    """A server with the aliases of the guide."""
    settings = {
        "model_aliases": ["kokoro", "speaches-ai/*", "tts-*"],
        "voice_aliases": {"af_heart": "ava", "am_adam": "adam"},
    }
    described = info(tasks=("CustomVoice", "Base"), speakers=("ava", "adam"), embedding_width=4)
    with scripted_server(
        tmp_path_factory.mktemp("voices"), ScriptedEngine(description=described), **settings
    ) as server:
        yield server


@pytest.mark.parametrize("client", REQUESTS)
def test_a_request_for_another_server_is_spoken(server: ScriptedServer, client: str) -> None:
    path, body = REQUESTS[client]
    answer = server.client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    assert server.requested.text == TEXT
    assert len(answer.content) > 1000
    assert "x-ignored-fields" not in answer.headers


def test_the_guide_lists_every_field_that_is_ignored() -> None:
    guide = (ROOT / "docs/guides/compatibility.md").read_text()
    listed = guide.partition("## Fields that are ignored")[2]
    assert {field for field in CLIENT_FIELDS if f"`{field}`" not in listed} == set()
