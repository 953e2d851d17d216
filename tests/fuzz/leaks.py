"""Finds resources that a server has not released, and unexpected lines in its log."""

from __future__ import annotations

import re
import time
from pathlib import Path

import psutil

from benchmarks.lib.resources import ResourceUsage, resource_usage
from tests.fuzz.replies import Finding
from tests.fuzz.target import TIMEOUT, Target

_SUSPECT = re.compile(r"Traceback|unexpected error|Fatal|\bERROR\b|\bCRITICAL\b|never retrieved|Segmentation")
_VOICE_OR_LOCK = re.compile(r"[a-z0-9_-]{1,64}\.safetensors|\.lock")
_POOL_THREADS = 8
"""Threads that thread pools may still start: each pool grows to its maximum when it is first busy."""


def idle_usage(target: Target) -> ResourceUsage:
    """Wait until the server is idle and has no connections. Return its resource usage."""
    target.serving.until_idle()
    server = target.serving.processes()
    deadline = time.monotonic() + TIMEOUT
    while any(each.status != psutil.CONN_LISTEN for each in server.http.net_connections("tcp")):
        if time.monotonic() > deadline:
            raise Finding(f"connections still open after {TIMEOUT:g} s: {server.http.net_connections('tcp')}")
        time.sleep(0.01)
    return resource_usage(server)


def check(target: Target, before: ResourceUsage) -> ResourceUsage:
    """Check that the server has released everything since ``before`` and logged no failure. Raises Finding."""
    if target.serving.process.poll() is not None:
        raise Finding("the server has exited:\n" + "\n".join(target.serving.lines[-20:]))
    suspect = [line for line in target.serving.lines if _SUSPECT.search(line)]
    if suspect:
        raise Finding("unexpected log lines: " + "\n".join(suspect[:20]))
    usage = _released(target, before)
    if usage.pids != before.pids:
        raise Finding(f"processes changed from {before.pids} to {usage.pids}")
    if (usage.files, usage.shared) != (before.files, before.shared):
        raise Finding(f"not released: {before} became {usage}: {_open_files(usage)}")
    if usage.threads > before.threads + _POOL_THREADS:
        raise Finding(f"threads grew from {before.threads} to {usage.threads}")
    _check_folders(target)
    return usage


def _released(target: Target, before: ResourceUsage) -> ResourceUsage:
    """Wait until the server has closed its files, with a timeout. Return its resource usage."""
    target.serving.until_idle()
    deadline = time.monotonic() + TIMEOUT
    server = target.serving.processes()
    while (usage := resource_usage(server)).files > before.files and time.monotonic() < deadline:
        time.sleep(0.05)
    return usage


def _open_files(usage: ResourceUsage) -> list[str]:
    """Return all open files, and the addresses of all connections."""
    links = [str(link.readlink()) for pid in usage.pids for link in Path(f"/proc/{pid}/fd").iterdir()]
    connections = [str(each) for pid in usage.pids for each in psutil.Process(pid).net_connections("all")]
    return [*links, *connections]


def _check_folders(target: Target) -> None:
    names = [path.name for path in (target.folder / "voices").glob("*")]
    unexpected = [name for name in names if not _VOICE_OR_LOCK.fullmatch(name)]
    temporary = [str(path) for path in (target.folder / "tmp").rglob("*")]
    if unexpected or temporary or len(names) > 9:
        raise Finding(f"unexpected files: {unexpected or temporary or names}")
