"""Uploads that the server cannot store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.raw_http import error
from tests.server.recordings import tone, wav
from tests.server.serving import Serving, write_config

LARGE = wav(tone(34.0))
"""More than the 1 MB that is kept in memory."""


@pytest.fixture(scope="module")
def full(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server that cannot write temporary files once it runs."""
    folder = tmp_path_factory.mktemp("full")
    temporary = folder / "temporary"
    temporary.mkdir()
    config = write_config(folder, pocket)
    with Serving(config, TMPDIR=str(temporary)) as server:
        server.ready()
        small_upload(server)  # which finds out where temporary files go
        temporary.rmdir()
        temporary.touch()
        yield server


def upload(server: Serving, audio: bytes) -> tuple[int, bytes]:
    with server.client() as client:
        answer = client.post("/v1/audio/voices/embedding", files={"audio_sample": ("a.wav", audio)})
    return answer.status_code, answer.content


def small_upload(server: Serving) -> None:
    assert upload(server, wav(tone(1.6)))[0] == 200


def test_an_upload_that_cannot_be_spooled_is_insufficient_storage(full: Serving) -> None:
    assert len(LARGE) > 1024 * 1024
    status, body = upload(full, LARGE)
    assert (status, error(body)["code"]) == (507, "insufficient_storage")
    full.wait_for("an upload could not be stored temporarily: ")
    assert not any("Traceback" in line for line in full.lines)
    small_upload(full)
