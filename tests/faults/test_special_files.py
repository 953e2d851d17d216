"""A FIFO, device or directory in place of a file is refused at once; none of these tests may hang."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from engine.checkpoint.checksums import SUMS_FILE
from engine.checkpoint.folder import FILES, open_checkpoint
from engine.errors import CheckpointError
from server.keys.valid_keys import load_keys
from server.settings import SettingsError, load_settings
from server.voices.stored_voice import VoiceFileError, read_voice
from tests.server.serving import write_config

pytestmark = pytest.mark.timeout(20)

SPECIAL: dict[str, Callable[[Path], object]] = {
    "a FIFO": os.mkfifo,
    "a directory": Path.mkdir,
    "a character device": lambda path: path.symlink_to("/dev/zero"),
}
kinds = pytest.mark.parametrize("kind", SPECIAL)


@kinds
@pytest.mark.parametrize("name", [*FILES, SUMS_FILE])
def test_refuses_a_special_file_in_a_checkpoint(
    checkpoints: Mapping[str, Path], tmp_path: Path, kind: str, name: str
) -> None:
    folder = shutil.copytree(checkpoints["pocket"], tmp_path / "checkpoint")
    (folder / name).unlink(missing_ok=True)
    SPECIAL[kind](folder / name)
    with pytest.raises(CheckpointError) as refused:
        open_checkpoint(str(folder))
    assert refused.value.message == f"{folder / name} cannot be read: {kind}, not a regular file"


@kinds
def test_refuses_a_special_file_as_configuration(tmp_path: Path, kind: str) -> None:
    SPECIAL[kind](tmp_path / "config")
    with pytest.raises(SettingsError, match=f"{tmp_path}/config cannot be read: {kind}, not a regular file"):
        load_settings(tmp_path / "config")


@kinds
def test_refuses_a_special_file_as_key_file(tmp_path: Path, kind: str) -> None:
    SPECIAL[kind](tmp_path / "keys")
    settings = load_settings(write_config(tmp_path, tmp_path, keys_file="keys"))
    with pytest.raises(SettingsError, match=f"keys_file: {tmp_path}/keys cannot be read: {kind}"):
        load_keys(settings)


@kinds
def test_refuses_a_special_file_as_stored_voice(tmp_path: Path, kind: str) -> None:
    SPECIAL[kind](tmp_path / "anna.safetensors")
    with pytest.raises(VoiceFileError, match=kind):
        read_voice(tmp_path / "anna.safetensors")


def write_huge_file(path: Path) -> Path:
    """Create a sparse file of 1 GB."""
    with path.open("wb") as file:
        file.truncate(1_000_000_000)
    return path


def test_refuses_huge_files(checkpoints: Mapping[str, Path], tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="larger than the 1048576 bytes"):
        load_settings(write_huge_file(tmp_path / "config"))
    write_huge_file(tmp_path / "keys")
    with pytest.raises(SettingsError, match="larger than the 4194304 bytes"):
        load_keys(load_settings(write_config(tmp_path, tmp_path, keys_file="keys")))
    folder = shutil.copytree(checkpoints["pocket"], tmp_path / "checkpoint")
    write_huge_file(folder / "config.json")
    with pytest.raises(CheckpointError, match=r"config\.json cannot be read: larger than"):
        open_checkpoint(str(folder))
