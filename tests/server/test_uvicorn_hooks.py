"""The internals of uvicorn and h11 that ``server.http`` relies on, and the error when uvicorn lacks one of them."""

from __future__ import annotations

import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import h11
import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from server.http.uvicorn_hooks import SUPPORTED, UnsupportedUvicorn, check_uvicorn
from tests.server.serving import ROOT, TIMEOUT, write_config


def run_serve(preparation: str, config: Path) -> subprocess.CompletedProcess[str]:
    """Run ``sonant serve`` after the Python statements in ``preparation``."""
    script = f"{preparation}\nfrom server.cli.main import main\nmain()"
    command = [sys.executable, "-c", script, "serve", "--config", str(config), "--port", "0"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT, check=False)


def test_the_installed_uvicorn_is_supported() -> None:
    check_uvicorn()


def test_the_supported_range_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert SUPPORTED in project["dependencies"]


def test_a_missing_method_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(WebSocketsSansIOProtocol, "handle_ping")
    with pytest.raises(UnsupportedUvicorn, match=r"it has no WebSocketsSansIOProtocol\.handle_ping\(\)"):
        check_uvicorn()


def test_a_changed_method_is_named_with_the_supported_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(H11Protocol, "handle_events", lambda self: self.conn.next_event())
    with pytest.raises(UnsupportedUvicorn) as error:
        check_uvicorn()
    assert "H11Protocol.handle_events() does not use 'app_state'" in str(error.value)
    assert uvicorn.__version__ in str(error.value)
    assert SUPPORTED in str(error.value)


def test_an_unsupported_uvicorn_ends_serve_with_one_line(pocket: Path, tmp_path: Path) -> None:
    preparation = "from uvicorn.protocols.http.h11_impl import H11Protocol\ndel H11Protocol.handle_events"
    done = run_serve(preparation, write_config(tmp_path, pocket))
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"sonant serve: uvicorn {uvicorn.__version__} is not supported: ")
    assert SUPPORTED in line


def test_a_missing_protocol_class_is_an_import_error_with_the_supported_range(pocket: Path, tmp_path: Path) -> None:
    done = run_serve("import uvicorn.protocols.http.h11_impl as h\ndel h.H11Protocol", write_config(tmp_path, pocket))
    assert done.returncode == 1
    assert "H11Protocol" in done.stderr.splitlines()[-1]
    assert SUPPORTED in done.stderr.splitlines()[-1]


def test_h11_writes_every_event_through_the_method_that_adds_trailers() -> None:
    assert "send_with_data_passthrough" in inspect.getsource(h11.Connection.send)
