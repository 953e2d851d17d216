"""Processes that store and delete voices until they are killed: ``python -m tests.server.voice_writer FOLDER MODE``.

Modes:
    random: write until killed.
    halfway: kill itself with half a file written.
    each line [OWNER]: run "add", "remove" and "replace" of a shared voice, or of the owner's, in child processes, each
        killed before another line of the store. Print the operation after each kill, and wait for a line on stdin.
    store-ten NAME MAX: store ten voices in a folder limited to MAX voices, and print how many succeeded.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from server.errors import ApiError
from server.voices import store as store_module
from server.voices.config import VoiceSettings
from server.voices.store import VoiceStore
from server.voices.stored_voice import StoredVoice

FRAMES = 375
WIDTH = 2048
NAMES = tuple(f"voice{number}" for number in range(8))
OLD, NEW = 1, 2


def voice(name: str, mark: int) -> StoredVoice:
    """A voice in which every number is ``mark``. The embedding's norm stays below the limit."""
    return StoredVoice(
        name=name,
        origin="audio_sample",
        created_at=mark,
        model="pocket",
        embedding=np.full(WIDTH, mark / 1024, np.float32),
        codes=np.full((FRAMES, 16), mark, np.int16),
        transcript=str(mark) * 100,
        consent=f"consent {mark}",
    )


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_halfway(when: Callable[[], bool] = lambda: True) -> None:
    """Kill this process during the next file sync, with half of the file written."""
    sync = os.fsync

    def truncate_and_die(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode) and when():
            os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
            die()
        sync(descriptor)

    os.fsync = truncate_and_die


def die_before_line(number: int) -> None:
    """Kill this process before the ``number``th executed line of the store."""
    reached = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal reached
        if frame.f_code.co_filename != store_module.__file__:
            return None
        reached += event == "line"
        if reached > number:
            die()
        return trace

    sys.settrace(trace)


def is_killed_at_line(act: Callable[[], Any], number: int) -> bool:
    """Whether a forked process that runs ``act`` is killed before its ``number``th line."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    die_before_line(number)
    act()
    os._exit(0)


def kill_at_each_line(store: VoiceStore, folder: Path, *, shared: bool) -> None:
    name = NAMES[0]

    def add(mark: int) -> None:
        store.add(replace(voice(name, mark), shared=shared))

    def replace_it() -> None:
        store.remove(name)
        add(NEW)

    operations = {"add": lambda: add(NEW), "remove": lambda: store.remove(name), "replace": replace_it}

    def reset(operation: str) -> None:
        store.remove(name)
        for unfinished in folder.glob("*.part"):
            unfinished.unlink()
        if operation != "add":
            add(OLD)

    for operation, act in operations.items():
        number = 0
        reset(operation)
        while is_killed_at_line(act, number):
            print(operation, flush=True)
            sys.stdin.readline()
            number += 1
            reset(operation)


def write_forever(store: VoiceStore) -> None:
    for mark in range(10_000):
        name = NAMES[mark % len(NAMES)]
        store.remove(name)
        store.add(voice(name, mark))


def store_ten(store: VoiceStore, name: str) -> int:
    """Store ten voices and return how many succeeded."""
    stored = 0
    for number in range(10):
        try:
            store.add(voice(f"{name}{number}", number))
        except ApiError as error:
            assert error.code == "voice_limit_reached"
        else:
            stored += 1
    return stored


def main() -> None:
    folder, mode, *more = sys.argv[1:]
    settings = VoiceSettings(folder=Path(folder), max_voices=int(more[1]) if mode == "store-ten" else 1000)
    owner = more[0] if mode == "each line" and more else None
    store = VoiceStore(settings, owner)
    if mode == "each line":
        kill_at_each_line(store, Path(folder), shared=owner is None)
    elif mode == "store-ten":
        print("ready", flush=True)
        sys.stdin.readline()
        print(store_ten(store, more[0]), flush=True)
    else:
        print("writing", flush=True)
        if mode == "halfway":
            die_halfway()
        write_forever(store)


if __name__ == "__main__":
    main()
