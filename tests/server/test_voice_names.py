"""Display names of stored voices, and blends that are written as the name of a voice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest

from server.voices.config import VoiceSettings
from server.voices.names import voice_id
from server.voices.store import VoiceStore
from tests.server.scripted_server import ScriptedServer, scripted_server
from tests.server.serving import SPEECH
from tests.server.test_bad_input import check
from tests.support.scripted_engine import ScriptedEngine, info

VOICES = "/v1/audio/voices"
WIDTH = 4
ALIASES = {"af_heart": "ava", "Team Voice": "ava+emma", "alloy": "emma"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("voices")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ScriptedServer]:
    """A server with two speakers, which clones."""
    described = info(tasks=("CustomVoice", "Base"), speakers=("ava", "emma"), embedding_width=WIDTH)
    with scripted_server(folder, ScriptedEngine(description=described), voice_aliases=ALIASES) as server:
        yield server


def store(server: ScriptedServer, name: str, axis: int = 2) -> dict[str, object]:
    """Store a voice and return its card."""
    embedding = json.dumps(np.eye(WIDTH)[axis].tolist())
    response = server.client.post(VOICES, files={"name": (None, name), "speaker_embedding": (None, embedding)})
    card: dict[str, object] = response.raise_for_status().json()
    return card


def spoken_voice(server: ScriptedServer, voice: str) -> list[float]:
    """The embedding that speech with ``voice`` has."""
    server.speak(voice=voice)
    requested = server.requested.voice
    assert requested is not None
    return [round(float(number), 3) for number in requested.embedding]


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("Anna", "anna"),
        ("Bert's Voice", "berts-voice"),
        ("Zoë (studio)", "zoe-studio"),
        ("小明", "voice-df3ea25a"),
        ("../../etc/passwd", "etc-passwd"),
        ("x" * 100, "x" * 55 + "-" + "09ecb6eb"),
    ],
)
def test_a_voice_keeps_its_display_name_and_gets_an_id(server: ScriptedServer, name: str, identifier: str) -> None:
    card = store(server, name)
    try:
        assert (card["id"], card["name"]) == (identifier, name)
        listed = server.client.get(VOICES).json()
        assert {"id": identifier, "name": name} in listed["voices"]
        assert card in listed["data"]
        for spelling in (name, name.upper(), f" {name} ", identifier):
            assert spoken_voice(server, spelling) == [0, 0, 1, 0]
            if "/" not in spelling:
                assert server.client.get(f"{VOICES}/{quote(spelling, safe='')}").json() == card
    finally:
        path = identifier if "/" in name else quote(name)
        assert server.client.delete(f"{VOICES}/{path}").json()["id"] == identifier
    assert identifier not in {card["id"] for card in server.client.get(VOICES).json()["data"]}


def test_names_with_the_same_id_are_the_same_voice(server: ScriptedServer) -> None:
    store(server, "Clara B")
    taken = server.client.post(VOICES, files={"name": (None, "clara-b"), "speaker_embedding": (None, "[0,0,1,0]")})
    check(taken, 409, "name", "voice_exists")
    for reserved in ("AVA", "Team Voice", "team-voice", "Alloy"):
        files = {"name": (None, reserved), "speaker_embedding": (None, "[0,0,1,0]")}
        check(server.client.post(VOICES, files=files), 409, "name", "voice_exists")


def test_a_name_that_only_resembles_a_voice_is_not_found(server: ScriptedServer) -> None:
    store(server, "Dora D")
    assert spoken_voice(server, "dora-d") == [0, 0, 1, 0]
    check(server.post(voice="dora/d"), 404, "voice", "voice_not_found")
    check(server.client.get(f"{VOICES}/dora.d"), 404, "voice_id", "voice_not_found")
    check(server.client.delete(f"{VOICES}/dora.d"), 404, "voice_id", "voice_not_found")


def test_a_renamed_file_has_the_name_of_the_file(server: ScriptedServer, folder: Path) -> None:
    store(server, "Emil's Voice")
    (folder / "emils-voice.safetensors").rename(folder / "emil.safetensors")
    names = {card["id"]: card["name"] for card in server.client.get(VOICES).json()["data"]}
    assert names["emil"] == "emil"
    assert VoiceStore(VoiceSettings(folder=folder)).get("emils-voice") is None


def test_an_id_is_its_own_id() -> None:
    for name in ("Anna's Voice", "小明", "x" * 100, "Straße", "a_b-c"):
        assert voice_id(voice_id(name)) == voice_id(name)


BLENDS = {
    "ava+emma": [0.707, 0.707, 0, 0],
    "AVA + Emma": [0.707, 0.707, 0, 0],
    "ava(2)+emma(1)": [0.866, 0.5, 0, 0],
    "ava(1.5) + emma (0)": [1, 0, 0, 0],
    "af_heart(2)+alloy(1)": [0.866, 0.5, 0, 0],
    "team voice": [0.707, 0.707, 0, 0],
    "Frida (US)+ava": [0.707, 0, 0.707, 0],
}


@pytest.mark.parametrize("voice", BLENDS)
def test_voices_with_plus_between_them_are_blended(server: ScriptedServer, voice: str) -> None:
    if "Frida" in voice:
        store(server, "Frida (US)")
    assert spoken_voice(server, voice) == BLENDS[voice]
    log = server.client.get(f"{SPEECH}/{server.speak(voice=voice).headers['x-request-id']}").json()
    assert log["voice"] == voice


def test_a_turn_may_have_a_blend(server: ScriptedServer) -> None:
    server.speak(input=[{"voice": "ava+emma", "input": "One."}])
    assert server.requested.voice is not None


REFUSED = [
    ("ava+", 400, "invalid_value", "ava(2)+emma(1)"),
    ("ava++emma", 400, "invalid_value", "ava(2)+emma(1)"),
    ("+".join("a" * 65), 400, "invalid_value", "2 to 64 names"),
    ("ava(0)+emma(0)", 400, "invalid_value", "above 0"),
    ("ava+nobody", 404, "voice_not_found", "available voices: ava, emma"),
    ("ava(x)+emma", 404, "voice_not_found", "'ava(x)'"),
    ("ava+Team Voice", 400, "invalid_value", "is a blend itself"),
]


@pytest.mark.parametrize(("voice", "status", "code", "text"), REFUSED, ids=[each[0][:20] for each in REFUSED])
def test_refuses_an_invalid_blend(server: ScriptedServer, voice: str, status: int, code: str, text: str) -> None:
    assert text in check(server.post(voice=voice), status, "voice", code)["message"]


def test_a_checkpoint_that_does_not_clone_refuses_a_blend(tmp_path: Path) -> None:
    with scripted_server(tmp_path) as server:
        error = check(server.post(voice="ava+emma"), 400, "voice", "unsupported_task")
    assert "supports only CustomVoice" in error["message"]
