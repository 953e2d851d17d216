"""Processes of a real server are killed, crash or hang: the others recover or end with them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import httpx
import psutil
import pytest

from benchmarks.lib.processes import Processes
from tests.server.serving import TIMEOUT, Serving, endless, streamed, write_config

STALL_SECONDS = 3
HANG_ON_SIGUSR1 = """
import ctypes, os, signal, sys

def hang(number, frame):
    os.write(2, b"the engine hangs\\n")
    ctypes.PyDLL(None).pause()

if "engine.worker" in sys.orig_argv:
    signal.signal(signal.SIGUSR1, hang)
"""
"""A ``sitecustomize`` module: on SIGUSR1 the engine process hangs in native code that holds the GIL.

SIGSTOP does not work here: the kernel kills stopped processes when their parent ends (orphaned process groups).
"""


@pytest.fixture(scope="module")
def hang_variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment variables of a server whose engine hangs on SIGUSR1."""
    folder = tmp_path_factory.mktemp("hanging")
    (folder / "sitecustomize.py").write_text(HANG_ON_SIGUSR1)
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


@pytest.fixture(scope="module")
def disposable(
    checkpoints, tmp_path_factory: pytest.TempPathFactory, hang_variables: dict[str, str]
) -> Iterator[Serving]:
    """A server whose HTTP process tests may kill."""
    limits = {"http_stall_seconds": STALL_SECONDS, "drain_seconds": 0.5}
    config = write_config(tmp_path_factory.mktemp("disposable"), checkpoints["pocket"], limits=limits)
    with Serving(config, **hang_variables) as server:
        yield server.ready()


def hang_engine(server: Serving) -> Processes:
    """Let the engine hang. Returns the server's processes."""
    processes = server.processes()
    processes.engine[0].send_signal(signal.SIGUSR1)
    server.wait_for("the engine hangs")
    return processes


def assert_gone(*processes: psutil.Process) -> None:
    _, alive = psutil.wait_procs(processes, TIMEOUT)
    assert not alive


def test_a_crash_of_the_http_process_breaks_only_its_current_streams(disposable: Serving) -> None:
    disposable.until_ready()
    before = disposable.processes()
    with disposable.client() as client, pytest.raises(httpx.TransportError), streamed(client, endless()) as response:
        pieces = response.iter_raw()
        assert next(pieces)
        before.http.send_signal(signal.SIGSEGV)
        list(pieces)
    assert httpx.get(f"{disposable.url}/health", timeout=TIMEOUT).status_code == 200
    disposable.wait_for(rf"HTTP process \(pid {before.http.pid}\) was killed by SIGSEGV; restarting it in \d+\.\d s")
    assert_gone(before.http, *before.engine)
    disposable.until_ready()


def test_a_hanging_http_process_is_killed_and_restarted(disposable: Serving) -> None:
    disposable.until_ready()
    before = disposable.processes()
    before.http.suspend()
    assert httpx.get(f"{disposable.url}/health", timeout=TIMEOUT).status_code == 200
    disposable.wait_for(rf"HTTP process \(pid {before.http.pid}\) sent no heartbeat for {STALL_SECONDS} s; killing it")
    assert_gone(before.http, *before.engine)


def test_a_hanging_engine_does_not_outlive_its_http_process(disposable: Serving) -> None:
    disposable.until_ready()
    before = hang_engine(disposable)
    before.http.kill()
    assert_gone(before.http, *before.engine)
    disposable.until_ready()


@pytest.mark.parametrize("state", ["loading", "hung"])
def test_no_process_outlives_a_killed_supervisor(
    checkpoints, tmp_path, hang_variables: dict[str, str], state: str
) -> None:
    engine = {"code2wav": {"placement": "process"}}
    with Serving(write_config(tmp_path, checkpoints["pocket"], engine=engine), **hang_variables) as server:
        if state == "hung":
            processes = hang_engine(server.ready())
            processes.http.suspend()
        else:
            processes = server.processes()
        server.process.kill()
        assert_gone(*processes.all)


def test_a_hanging_engine_does_not_delay_the_stop(disposable: Serving) -> None:
    """The last test, because it ends the server of the others."""
    disposable.until_ready()
    with disposable.client() as client, streamed(client, endless()) as response:
        pieces = response.iter_raw()
        assert next(pieces)
        processes = disposable.processes()
        for process in processes.engine:
            process.suspend()
        disposable.process.terminate()
        assert disposable.process.wait(13) == 0
        assert_gone(*processes.all)
