"""Processes of a real server end while it reloads its configuration, or after that."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.server.reloadable import ReloadableServer
from tests.server.serving import SPEECH, TIMEOUT, endless, speech, streamed
from tests.support.random_checkpoint import RandomCheckpoints

SLOTS = {"engine": {"talker": {"slots": 3}}}
"""A change that needs a new engine."""


@contextmanager
def started(checkpoints: RandomCheckpoints, folder: Path) -> Iterator[ReloadableServer]:
    """A server that is ready."""
    reloadable = ReloadableServer(folder, checkpoints)
    with reloadable.server as server:
        server.ready()
        server.until_ready()
        yield reloadable


@pytest.fixture(scope="module")
def reloadable(checkpoints: RandomCheckpoints, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReloadableServer]:
    """A server that all tests use. The last one stops it."""
    with started(checkpoints, tmp_path_factory.mktemp("reloadable")) as reloadable:
        yield reloadable


def test_after_a_crash_the_server_uses_the_configuration_of_the_last_reload(reloadable: ReloadableServer) -> None:
    reloadable.change(model_aliases=["applied"])
    reloadable.write(model_aliases=["not applied"])
    before = reloadable.server.processes().http
    before.kill()
    reloadable.server.wait_for("was killed by SIGKILL; restarting it")
    reloadable.server.until_ready()
    assert reloadable.server.processes().http != before
    with reloadable.server.client() as client:
        statuses = [client.get(f"/v1/models/{name}").status_code for name in ("applied", "not applied")]
        assert statuses == [200, 404]
        assert reloadable.reload().returncode == 0
        statuses = [client.get(f"/v1/models/{name}").status_code for name in ("applied", "not applied")]
        assert statuses == [404, 200]


def test_an_engine_that_crashes_while_it_loads_changes_nothing(reloadable: ReloadableServer) -> None:
    (serving,) = reloadable.settled()
    reloadable.write(**SLOTS)
    with ThreadPoolExecutor(1) as threads:
        reloading = threads.submit(reloadable.reload)
        while not reloading.done():
            for engine in reloadable.engines() - {serving}:
                with suppress(psutil.NoSuchProcess):  # it has been killed and reaped already
                    psutil.Process(engine).kill()
        done = reloading.result()
    assert done.returncode == 1
    assert "an engine of pocket could not start: the engine exited 3 times before it was ready" in done.stderr
    assert reloadable.settled() == {serving}
    with reloadable.server.client() as client:
        assert client.post(SPEECH, json=speech()).status_code == 200


def test_a_stop_during_a_reload_ends_all_processes(checkpoints: RandomCheckpoints, tmp_path: Path) -> None:
    with started(checkpoints, tmp_path) as reloadable:
        reloadable.settled()
        reloadable.write(**SLOTS)
        with ThreadPoolExecutor(1) as threads:
            reloading = threads.submit(reloadable.reload)
            reloadable.settled(2)
            processes = psutil.Process(reloadable.server.process.pid).children(recursive=True)
            reloadable.server.process.terminate()
            assert "the server is stopping" in reloading.result().stderr
        assert reloadable.server.process.wait(TIMEOUT) == 0
        assert not psutil.wait_procs(processes, TIMEOUT)[1]


def test_a_stop_after_a_reload_ends_the_draining_engine(reloadable: ReloadableServer) -> None:
    """The last test, because it stops the server of the others."""
    reloadable.settled()
    with reloadable.server.client() as client, streamed(client, endless()) as response:
        assert next(response.iter_raw())
        reloadable.change(engine={"talker": {"slots": 2}})
        reloadable.server.process.terminate()
        processes = psutil.Process(reloadable.server.process.pid).children(recursive=True)
    assert reloadable.server.process.wait(TIMEOUT) == 0
    assert not psutil.wait_procs(processes, TIMEOUT)[1]
