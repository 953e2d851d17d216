"""A server with a checkpoint packed in int8 speaks as one that quantizes the original checkpoint at startup."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.server.serving import ROOT, SPEECH, TIMEOUT, Serving, speech, write_config


def sonant_pack(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "server.cli", "pack", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=TIMEOUT)


def samples_of(folder: Path, checkpoint: Path, weights: str) -> bytes:
    folder.mkdir()
    config = write_config(folder, checkpoint, engine={"talker": {"weights": weights}})
    with Serving(config) as server, server.ready().client() as client:
        (card,) = client.get("/v1/models").raise_for_status().json()["data"]
        assert card["weights"] == "int8"
        return client.post(SPEECH, json=speech(stream=False)).raise_for_status().content


def test_a_packed_checkpoint_gives_the_same_samples(pocket: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed"
    done = sonant_pack(pocket, packed, "--weights", "int8")
    assert done.returncode == 0, done.stderr
    assert "packed with int8" in done.stdout
    original = samples_of(tmp_path / "original", pocket, "int8")
    assert samples_of(tmp_path / "auto", packed, "auto") == original
    assert len(original) > 0


def test_a_server_whose_format_is_not_that_of_the_checkpoint_does_not_start(pocket: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed"
    assert sonant_pack(pocket, packed, "--weights", "int4").returncode == 0
    with Serving(write_config(tmp_path, packed, engine={"talker": {"weights": "exact"}})) as server:
        assert server.process.wait(TIMEOUT) == 1
    assert any("must be auto or int4, the format that" in line for line in server.lines)
