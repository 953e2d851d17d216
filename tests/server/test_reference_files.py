"""Recordings in folders of the server: only files inside allowed folders are read, however the path is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from server.errors import ApiError
from server.references.library import read_file

MAX_BYTES = 1000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An allowed folder, next to a secret file outside it."""
    folder = tmp_path / "allowed"
    (folder / "deep").mkdir(parents=True)
    (folder / "voice.wav").write_bytes(b"voice")
    (folder / "deep" / "one voice#1.wav").write_bytes(b"deep")
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "allowed-not").mkdir()
    (tmp_path / "allowed-not" / "voice.wav").write_bytes(b"secret")
    return folder


def refusal(source: str, *folders: Path, most: int = MAX_BYTES) -> ApiError:
    with pytest.raises(ApiError) as caught:
        read_file(source, folders, most)
    assert (caught.value.status, caught.value.param) == (400, "ref_audio")
    return caught.value


def test_reads_a_file_by_path_and_by_url(folder: Path) -> None:
    sources = [f"{folder}/voice.wav", f"file://{folder}/voice.wav", f"FILE://localhost{folder}/voice.wav"]
    sources += [f"{folder}/deep/../voice.wav", f"file:{folder}/voice.wav", f"//{folder}/voice.wav"]
    for source in sources:
        assert read_file(source, [folder], MAX_BYTES) == b"voice"
    assert read_file(f"file://{folder}/deep/one%20voice%231.wav", [folder], MAX_BYTES) == b"deep"
    assert read_file(f"{folder}/deep/one voice#1.wav", [Path("/nowhere"), folder / "deep"], MAX_BYTES) == b"deep"


def test_follows_links_only_within_the_folder(folder: Path, tmp_path: Path) -> None:
    (folder / "out.wav").symlink_to(tmp_path / "secret")
    (folder / "up").symlink_to(tmp_path)
    (folder / "in.wav").symlink_to(folder / "voice.wav")
    (tmp_path / "link").symlink_to(folder)
    assert read_file(f"{folder}/in.wav", [folder], MAX_BYTES) == b"voice"
    assert read_file(f"{tmp_path}/link/voice.wav", [folder], MAX_BYTES) == b"voice"
    assert read_file(f"{folder}/voice.wav", [tmp_path / "link"], MAX_BYTES) == b"voice"
    for source in (f"{folder}/out.wav", f"{folder}/up/secret"):
        assert refusal(source, folder).code == "reference_not_found"


def test_outside_and_missing_files_get_the_same_error(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to(folder / "loop")
    inside = [f"{folder}/{name}" for name in ("none", "pipe", "loop", "deep", "", "../secret", "voice.wav/x", "a\0b")]
    outside = [
        f"{tmp_path}/secret",
        f"{tmp_path}/none",
        f"{tmp_path}/allowed-not/voice.wav",
        "/dev/zero",
        "/" + "a" * 9999,
    ]
    urls = [
        f"file://elsewhere{folder}/voice.wav",
        f"file://{folder}/%2e%2e/secret",
        "file:voice.wav",
        "file://",
        "file://[",
    ]
    errors = {(error.message, error.code) for error in (refusal(each, folder) for each in inside + outside + urls)}
    assert {code for _, code in errors} == {"reference_not_found"}
    assert len(errors) == 1


def test_reads_no_file_without_a_configured_folder(folder: Path) -> None:
    assert refusal(f"{folder}/voice.wav").code == "not_supported"


def test_reads_at_most_the_size_limit_of_a_recording(folder: Path) -> None:
    (folder / "large.wav").write_bytes(bytes(MAX_BYTES + 1))
    assert "more than 1000 bytes" in refusal(f"{folder}/large.wav", folder).message


def test_refusals_leave_no_file_open(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    open_before = len(os.listdir("/dev/fd"))
    for source in (f"{folder}/deep", f"{folder}/pipe", f"{folder}/none"):
        refusal(source, folder)
    assert len(os.listdir("/dev/fd")) == open_before
