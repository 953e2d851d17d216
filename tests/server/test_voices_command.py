"""``sonant voices`` and ``scripts/blend_speakers.py``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from typer.testing import Result

from scripts import blend_speakers
from server.voices.config import VoiceSettings
from server.voices.store import VoiceStore
from server.voices.stored_voice import StoredVoice, read_voice
from tests.server.commands import run_command, run_module
from tests.server.recordings import data_url, tone, wav
from tests.server.serving import ROOT, SPEECH, TIMEOUT, Serving, speech

VOICES = "/v1/audio/voices"
TRANSCRIPT = "one two three"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "sample.wav"
    path.write_bytes(wav(tone(1.6)))
    return path


@pytest.fixture(autouse=True)
def _delete_stored_voices(client: httpx.Client) -> Iterator[None]:
    yield
    for card in client.get(VOICES).json()["data"]:
        if card["type"] != "built_in":
            client.delete(f"{VOICES}/{card['id']}").raise_for_status()


def run_voices(serving: Serving, *arguments: object) -> Result:
    return run_command("voices", *arguments, SONANT_SERVER=serving.url)


def test_adds_lists_and_deletes_a_voice(serving: Serving, client: httpx.Client, recording: Path) -> None:
    command = ["voices", "add", "anna", recording, "--ref-text", TRANSCRIPT, "--consent", "cons_1"]
    done = run_module("server.cli", *command, SONANT_SERVER=serving.url)
    assert done.returncode == 0, done.stderr
    card = client.get(f"{VOICES}/anna").json()
    assert (card["ref_text"], card["consent"]) == (TRANSCRIPT, "cons_1")
    listed = run_voices(serving, "list").stdout
    assert "serena" in listed and "anna" in listed
    assert run_voices(serving, "rm", "anna").exit_code == 0
    assert client.get(f"{VOICES}/anna").status_code == 404


def test_embed_prints_the_embedding_of_a_recording(serving: Serving, client: httpx.Client, recording: Path) -> None:
    numbers = json.loads(run_voices(serving, "embed", recording).stdout)
    one = client.post(SPEECH, json=speech(speaker_embedding=numbers)).content
    assert one == client.post(SPEECH, json=speech(ref_audio=data_url(tone(1.6)))).content


def test_a_blend_is_printed_or_stored(serving: Serving, client: httpx.Client) -> None:
    numbers = json.loads(run_voices(serving, "blend", "ryan:0.7", "serena:0.3").stdout)
    assert run_voices(serving, "blend", "ryan:0.7", "serena:0.3", "--name", "mixed").exit_code == 0
    one = client.post(SPEECH, json=speech(voice="mixed")).content
    assert one == client.post(SPEECH, json=speech(speaker_embedding=numbers)).content


def test_an_error_is_one_line(serving: Serving, recording: Path, tmp_path: Path) -> None:
    for arguments in (
        ["add", "serena", recording],
        ["add", "anna", tmp_path / "nothing.wav"],
        ["rm", "nobody"],
        ["rm", "../nobody"],
        ["blend", "ryan:-1"],
        ["list", "--server", "http://127.0.0.1:1"],
        ["list", "--server", "nonsense"],
        ["list", "--server", f"{serving.url}/health"],
    ):
        done = run_voices(serving, *arguments)
        assert done.exit_code == 1, arguments
        assert done.stdout == ""
        assert done.stderr.startswith(f"sonant voices {arguments[0]}: ")
        assert done.stderr.count("\n") == 1


@pytest.fixture
def stored(tmp_path: Path) -> dict[str, Path]:
    """Voice files by name."""
    store = VoiceStore(VoiceSettings(folder=tmp_path))
    rng = np.random.default_rng(1)
    for name, width in (("anna", 64), ("bert", 64), ("large", 128)):
        embedding = rng.normal(size=width).astype(np.float32)
        store.add(StoredVoice(name, "speaker_embedding", 1, "pocket", embedding))
    return {name: tmp_path / f"{name}.safetensors" for name in ("anna", "bert", "large")}


def test_the_script_blends_like_the_server(stored: dict[str, Path], client: httpx.Client, tmp_path: Path) -> None:
    output = tmp_path / "mixed.safetensors"
    done = run_module("scripts.blend_speakers", f"{stored['anna']}:0.7", f"{stored['bert']}:0.3", "-o", output)
    assert done.returncode == 0, done.stderr
    mixed = read_voice(output)
    shares = [
        {"speaker_embedding": read_voice(stored[name]).embedding.tolist(), "weight": weight}
        for name, weight in (("anna", 0.7), ("bert", 0.3))
    ]
    answer = client.post(f"{VOICES}/blend", json={"voices": shares}).json()
    assert (mixed.name, mixed.origin) == ("mixed", "blend")
    assert np.array_equal(mixed.embedding, np.float32(answer["speaker_embedding"]))


def test_a_blend_that_cannot_be_written_leaves_no_file(stored: dict[str, Path], tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    output = tmp_path / "mixed.safetensors"
    command = [sys.executable, "-m", "scripts.blend_speakers", stored["anna"], stored["bert"], "-o", output]
    with_file_limit = ["bash", "-c", 'ulimit -f 0; exec "$@"', "bash", *map(str, command)]
    done = subprocess.run(with_file_limit, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert (done.returncode, done.stderr) == (1, f"blend_speakers: {output}: File too large\n")
    assert sorted(tmp_path.iterdir()) == before


def test_files_that_cannot_be_blended_are_named(
    stored: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.safetensors").write_text("no voice")
    output = tmp_path / "mixed.safetensors"
    for arguments, reason in (
        ([stored["anna"], stored["large"], "-o", output], "64 and 128"),
        ([stored["anna"], tmp_path / "nobody.safetensors", "-o", output], "nobody.safetensors"),
        ([stored["anna"], tmp_path / "text.safetensors", "-o", output], "text.safetensors"),
        ([f"{stored['anna']}:0", "-o", output], "weight"),
        ([stored["anna"], "-o", tmp_path / "Mixed.safetensors"], "NAME.safetensors"),
        ([stored["anna"], "-o", stored["bert"]], "bert.safetensors"),
    ):
        assert blend_speakers.main(list(map(str, arguments))) == 1
        errors = capsys.readouterr().err
        assert reason in errors and errors.count("\n") == 1
        assert not output.exists()
