"""Checkpoint names: local folders first, then the Hugging Face hub, here offline."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.checkpoint.folder import find_folder
from engine.errors import CheckpointError

ROOT = Path(__file__).parents[2]
OPEN_SCRIPT = """
import sys
from engine.checkpoint.folder import open_checkpoint
from engine.errors import CheckpointError
try:
    print(open_checkpoint(sys.argv[1]).model.kind)
except CheckpointError as error:
    print(error.message)
"""


def open_offline(name: str, cache: Path) -> str:
    """The output of an offline process: the kind of the checkpoint, or the error."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(cache), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", OPEN_SCRIPT, name]
    done = subprocess.run(command, env=environment, cwd=cache, capture_output=True, text=True, timeout=100, check=True)
    return done.stdout.strip()


def test_a_downloaded_checkpoint_opens_by_its_hub_name(checkpoints, tmp_path):
    repository = tmp_path / "models--Qwen--Qwen3-TTS-12Hz-0.6B-Base"
    revision = "0" * 40
    shutil.copytree(checkpoints["0b6-base"], repository / "snapshots" / revision)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(revision)
    assert open_offline("Qwen/Qwen3-TTS-12Hz-0.6B-Base", tmp_path) == "base"


def test_offline_the_error_says_what_to_do(tmp_path):
    message = open_offline("Qwen/Qwen3-TTS-12Hz-0.6B-Base", tmp_path)
    assert "the folder Qwen/Qwen3-TTS-12Hz-0.6B-Base does not exist" in message
    assert "download it elsewhere and set model to its folder" in message
    assert "\n" not in message


def test_a_folder_takes_precedence_over_a_hub_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("Qwen/Mine").mkdir(parents=True)
    assert find_folder("Qwen/Mine") == Path("Qwen/Mine")


@pytest.mark.parametrize("name", ["/nowhere/at/all", "./models/none", "~/none/at/all", "plain", "a/b/c"])
def test_refuses_a_name_that_is_neither(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="must be an existing folder or a Hugging Face name"):
        find_folder(name)


def test_refuses_a_file(tmp_path):
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(CheckpointError, match="must be the folder of a checkpoint"):
        find_folder(str(tmp_path / "model.safetensors"))
