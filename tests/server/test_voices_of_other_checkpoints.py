"""Stored voices beside checkpoints that only clone, and beside those that never do."""

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
from tests.server.serving import SPEECH, Serving, speech, write_config
from tests.support.random_checkpoint import write_checkpoint

VOICES = "/v1/audio/voices"
FORM = {"name": (None, "bert"), "audio_sample": ("sample.wav", wav(tone(1.6)))}


def served(folder: Path, variant: str, **settings: object) -> Iterator[httpx.Client]:
    write_checkpoint(folder / variant, variant)
    store = VoiceStore(VoiceSettings(folder=folder / "voices"))
    store.add(StoredVoice("anna", "speaker_embedding", 1, "pocket", np.linspace(-1, 1, 64, dtype=np.float32)))
    with Serving(write_config(folder, folder / variant, **settings)) as server, server.ready().client() as client:
        yield client


@pytest.fixture(scope="module")
def cloner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A checkpoint without voices of its own."""
    yield from served(tmp_path_factory.mktemp("cloner"), "0b6-base", voice_aliases={"alloy": "anna"})


@pytest.fixture(scope="module")
def speaker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A checkpoint with no voices but its own."""
    yield from served(tmp_path_factory.mktemp("speaker"), "0b6-custom_voice")


def heard(client: httpx.Client, **fields: object) -> bytes:
    response = client.post(SPEECH, json=speech(**fields))
    assert response.status_code == 200, response.text
    return response.content


def refused(response: httpx.Response) -> tuple[int, str | None, str | None]:
    error = response.json()["error"]
    return response.status_code, error["param"], error["code"]


def test_openais_names_may_stand_for_stored_voices(cloner: httpx.Client) -> None:
    assert [card["id"] for card in cloner.get(VOICES).json()["data"]] == ["anna"]
    assert heard(cloner, voice="alloy") == heard(cloner, voice="anna")


def test_without_a_default_a_voice_must_be_named(cloner: httpx.Client) -> None:
    for fields in ({}, {"voice": "verse"}):
        assert refused(cloner.post(SPEECH, json=speech(**fields))) == (
            400,
            "ref_audio",
            "missing_required_parameter",
        )
    for fields in ({"voice": "nobody"}, {"voices": [{"voice": "nobody"}]}, {"voices": [{"voice": "verse"}]}):
        status, _, code = refused(cloner.post(SPEECH, json=speech(**fields)))
        assert (status, code) == (404, "voice_not_found")


def test_a_checkpoint_that_cannot_clone_says_so(speaker: httpx.Client) -> None:
    (card,) = (card for card in speaker.get(VOICES).json()["data"] if card["type"] != "built_in")
    assert (card["id"], card["compatible"]) == ("anna", False)
    unsupported = "unsupported_task"
    assert refused(speaker.post(SPEECH, json=speech(voice="anna"))) == (400, "voice", unsupported)
    assert refused(speaker.post(SPEECH, json=speech(voices=[{"voice": "ryan"}]))) == (400, "voices", unsupported)
    assert refused(speaker.post(VOICES, files=FORM)) == (400, "audio_sample", unsupported)
    assert refused(speaker.post(f"{VOICES}/blend", json={"voices": [{"voice": "ryan"}]})) == (
        400,
        "voices",
        unsupported,
    )
    assert heard(speaker, voice="ryan")


def test_a_recording_is_still_cloned(cloner: httpx.Client) -> None:
    cloner.post(VOICES, files=FORM).raise_for_status()
    assert heard(cloner, voice="bert") == heard(cloner, ref_audio=data_url(tone(1.6)))
