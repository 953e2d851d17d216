"""What a server holds, as the system sees it."""

from __future__ import annotations

import re
import time
from pathlib import Path

import psutil

from benchmarks.lib.resources import Held, held
from tests.fuzz.answers import Found
from tests.fuzz.target import PATIENCE, Target

_SUSPECT = re.compile(r"Traceback|unexpected error|Fatal|\bERROR\b|\bCRITICAL\b|never retrieved|Segmentation")
_VOICE_OR_LOCK = re.compile(r"[a-z0-9_-]{1,64}\.safetensors|\.lock")
_POOLS = 8
"""Threads that pools may still start: each grows to a bound when it is first busy."""


def settled(target: Target) -> Held:
    """What the server holds once it has nothing to do, and the last connection is gone too: also who asked for that."""
    target.serving.until_idle()
    server = target.serving.processes()
    deadline = time.monotonic() + PATIENCE
    while any(each.status != psutil.CONN_LISTEN for each in server.http.net_connections("tcp")):
        if time.monotonic() > deadline:
            raise Found(f"connections that do not end: {server.http.net_connections('tcp')}")
        time.sleep(0.01)
    return held(server)


def check(target: Target, before: Held) -> Held:
    """Raises Found for whatever the server has kept of those who asked since ``before``, or said of itself."""
    if target.serving.process.poll() is not None:
        raise Found("the server has ended:\n" + "\n".join(target.serving.lines[-20:]))
    suspect = [line for line in target.serving.lines if _SUSPECT.search(line)]
    if suspect:
        raise Found("in the log: " + "\n".join(suspect[:20]))
    now = _at_rest(target, before)
    if now.processes != before.processes:
        raise Found(f"a process was lost: {before.processes} are {now.processes}")
    if (now.files, now.shared) != (before.files, before.shared):
        raise Found(f"left behind: {before} are {now}: {_open(now)}")
    if now.threads > before.threads + _POOLS:
        raise Found(f"threads left behind: {before.threads} are {now.threads}")
    _check_folders(target)
    return now


def _at_rest(target: Target, before: Held) -> Held:
    """What the server holds when it has let go of everybody, or has had the time to."""
    target.serving.until_idle()
    deadline = time.monotonic() + PATIENCE
    server = target.serving.processes()
    while (now := held(server)).files > before.files and time.monotonic() < deadline:
        time.sleep(0.05)
    return now


def _open(now: Held) -> list[str]:
    """Every open file, and who is at the other end of every connection."""
    links = [str(link.readlink()) for pid in now.processes for link in Path(f"/proc/{pid}/fd").iterdir()]
    connections = [str(each) for pid in now.processes for each in psutil.Process(pid).net_connections("all")]
    return [*links, *connections]


def _check_folders(target: Target) -> None:
    names = [path.name for path in (target.folder / "voices").glob("*")]
    strange = [name for name in names if not _VOICE_OR_LOCK.fullmatch(name)]
    left = [str(path) for path in (target.folder / "tmp").rglob("*")]
    if strange or left or len(names) > 9:
        raise Found(f"files left behind: {strange or left or names}")
