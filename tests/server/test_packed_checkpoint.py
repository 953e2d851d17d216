"""A server with a checkpoint packed in int8 speaks as one that quantizes the original checkpoint at startup."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.commands import run_module
from tests.server.serving import SPEECH, TIMEOUT, Serving, speech, write_config


def samples_of(folder: Path, checkpoint: Path, weights: str) -> bytes:
    folder.mkdir()
    config = write_config(folder, checkpoint, engine={"talker": {"weights": weights}})
    with Serving(config) as server, server.ready().client() as client:
        (card,) = client.get("/v1/models").raise_for_status().json()["data"]
        assert card["weights"] == "int8"
        return client.post(SPEECH, json=speech(stream=False)).raise_for_status().content


@pytest.fixture(scope="module")
def packed(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed") / "int8"
    done = run_module("server.cli", "pack", pocket, folder, "--weights", "int8")
    assert done.returncode == 0, done.stderr
    assert "packed with int8" in done.stdout
    return folder


def test_a_packed_checkpoint_gives_the_same_samples(pocket: Path, packed: Path, tmp_path: Path) -> None:
    original = samples_of(tmp_path / "original", pocket, "int8")
    assert samples_of(tmp_path / "auto", packed, "auto") == original
    assert len(original) > 0


def test_a_server_whose_format_is_not_that_of_the_checkpoint_does_not_start(packed: Path, tmp_path: Path) -> None:
    with Serving(write_config(tmp_path, packed, engine={"talker": {"weights": "exact"}})) as server:
        assert server.process.wait(TIMEOUT) == 1
    assert any("must be auto or int8, the format that" in line for line in server.lines)
