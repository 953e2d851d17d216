"""Stored voices with checkpoints that only clone, and with checkpoints that cannot clone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from server.voices.config import VoiceSettings
from server.voices.store import VoiceStore
from server.voices.stored_voice import StoredVoice
from tests.server.recordings import data_url, tone, wav
from tests.server.scripted_server import scripted_server
from tests.server.serving import SPEECH, Serving, speech, write_config
from tests.support.random_checkpoint import write_checkpoint
from tests.support.scripted_engine import ScriptedEngine, info

VOICES = "/v1/audio/voices"
FORM = {"name": (None, "bert"), "audio_sample": ("sample.wav", wav(tone(1.6)))}


def store_anna(folder: Path) -> None:
    store = VoiceStore(VoiceSettings(folder=folder))
    store.add(StoredVoice("anna", "speaker_embedding", 1, "pocket", np.linspace(-1, 1, 64, dtype=np.float32)))


@pytest.fixture(scope="module")
def clone_only(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a checkpoint without built-in voices."""
    folder = tmp_path_factory.mktemp("clone-only")
    store_anna(folder / "voices")
    write_checkpoint(folder / "checkpoint", "0b6-base")
    config = write_config(folder, folder / "checkpoint", voice_aliases={"alloy": "anna"})
    with Serving(config) as server, server.ready().client() as client:
        yield client


@pytest.fixture(scope="module")
def built_in_only(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a checkpoint that has built-in voices and cannot clone."""
    folder = tmp_path_factory.mktemp("built-in-only")
    store_anna(folder)
    engine = ScriptedEngine(description=info(trained=False, speakers=("ryan",)))
    with scripted_server(folder, engine) as server:
        yield server.client


def synthesize(client: httpx.Client, **fields: object) -> bytes:
    response = client.post(SPEECH, json=speech(**fields))
    assert response.status_code == 200, response.text
    return response.content


def refusal_of(response: httpx.Response) -> tuple[int, str | None, str | None]:
    error = response.json()["error"]
    return response.status_code, error["param"], error["code"]


def test_openai_voice_names_may_map_to_stored_voices(clone_only: httpx.Client) -> None:
    assert [card["id"] for card in clone_only.get(VOICES).json()["data"]] == ["anna"]
    assert synthesize(clone_only, voice="alloy") == synthesize(clone_only, voice="anna")


def test_without_a_default_voice_the_request_must_name_one(clone_only: httpx.Client) -> None:
    for fields in ({}, {"voice": "verse"}):
        assert refusal_of(clone_only.post(SPEECH, json=speech(**fields))) == (
            400,
            "ref_audio",
            "missing_required_parameter",
        )
    for fields in ({"voice": "nobody"}, {"voices": [{"voice": "nobody"}]}, {"voices": [{"voice": "verse"}]}):
        status, _, code = refusal_of(clone_only.post(SPEECH, json=speech(**fields)))
        assert (status, code) == (404, "voice_not_found")


def test_a_checkpoint_that_cannot_clone_refuses_stored_voices(built_in_only: httpx.Client) -> None:
    (card,) = (card for card in built_in_only.get(VOICES).json()["data"] if card["type"] != "built_in")
    assert (card["id"], card["compatible"]) == ("anna", False)
    unsupported = "unsupported_task"
    assert refusal_of(built_in_only.post(SPEECH, json=speech(voice="anna"))) == (400, "voice", unsupported)
    assert refusal_of(built_in_only.post(SPEECH, json=speech(voices=[{"voice": "ryan"}]))) == (
        400,
        "voices",
        unsupported,
    )
    assert refusal_of(built_in_only.post(VOICES, files=FORM)) == (400, "audio_sample", unsupported)
    assert refusal_of(built_in_only.post(f"{VOICES}/blend", json={"voices": [{"voice": "ryan"}]})) == (
        400,
        "voices",
        unsupported,
    )
    assert synthesize(built_in_only, voice="ryan")


def test_a_clone_only_checkpoint_stores_recordings(clone_only: httpx.Client) -> None:
    clone_only.post(VOICES, files=FORM).raise_for_status()
    assert synthesize(clone_only, voice="bert") == synthesize(clone_only, ref_audio=data_url(tone(1.6)))
