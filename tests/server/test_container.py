"""The health check of the container image, the address file that it reads, and the folder of a mounted volume."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from server.http.address_file import address_file
from server.voices.config import VoiceSettings
from server.voices.folder_access import folder_warning
from tests.server.commands import run_module
from tests.server.origins import origin, page
from tests.server.serving import ROOT, Serving


def check_health(file: Path) -> subprocess.CompletedProcess[str]:
    return run_module("server.cli.health_check", SONANT_ADDRESS_FILE=str(file))


def test_a_ready_server_is_healthy(serving: Serving) -> None:
    done = check_health(serving.folder / "address")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_server_that_does_not_answer_is_unhealthy(tmp_path: Path) -> None:
    file = tmp_path / "address"
    assert "No such file" in check_health(file).stderr
    with socket.create_server(("127.0.0.1", 0)) as listener, address_file(file, listener):
        listener.close()
        done = check_health(file)
    assert done.returncode == 1
    assert "does not answer" in done.stderr


async def test_a_server_that_is_not_ready_is_unhealthy(tmp_path: Path) -> None:
    file = tmp_path / "address"
    async with origin({"/ready": page(b'{"error": "loading"}', "503 Service Unavailable")}) as server:
        file.write_text(f"http://127.0.0.1:{server.port}\n")
        done = await asyncio.to_thread(check_health, file)
    assert done.returncode == 1
    assert 'status 503: {"error": "loading"}' in done.stderr


@pytest.mark.parametrize(("host", "known_as"), [("0.0.0.0", "127.0.0.1"), ("127.0.0.1", "127.0.0.1")])
def test_the_address_file_exists_while_the_server_runs(tmp_path: Path, host: str, known_as: str) -> None:
    file = tmp_path / "address"
    with socket.create_server((host, 0)) as listener:
        with address_file(file, listener):
            assert file.read_text() == f"http://{known_as}:{listener.getsockname()[1]}\n"
        assert not file.exists()


def test_a_voices_folder_that_can_be_written_gives_no_warning(tmp_path: Path) -> None:
    assert folder_warning(VoiceSettings(folder=tmp_path / "new" / "voices")) is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become a user who may not write the folder")
def test_a_voices_folder_that_cannot_be_written_is_named_with_the_user() -> None:
    code = (
        "from server.voices.config import VoiceSettings; from server.voices.folder_access import folder_warning; "
        "print(folder_warning(VoiceSettings(folder='/etc/voices'))); "
        "print(folder_warning(VoiceSettings(folder='/etc/voices', max_voices=0)))"
    )
    command = [sys.executable, "-c", f"import os, sys; sys.path.insert(0, {str(ROOT)!r}); {code}"]
    done = subprocess.run(
        ["setpriv", "--reuid=10001", "--clear-groups", *command], capture_output=True, text=True, timeout=60, check=True
    )
    assert "voices.folder: user 10001 cannot write /etc" in done.stdout
    assert "chown 10001" in done.stdout
    assert done.stdout.splitlines()[1] == "None"
