"""Processes that store and delete voices until they are killed: ``python -m tests.server.voice_writer FOLDER WHAT``.

"random": one that goes on until somebody kills it. "halfway": one that kills itself with half a file written.
"each line [OWNER]": one after the other, each killed before another line of the store, at "add", "remove" and
"replace" of a shared voice, or of the owner's; after each death a line says which, and the next one begins when a line
has come in.
"crowd NAME MOST": stores ten voices of its own in a folder that takes so many, and tells how many it could.
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
    """A voice whose every number tells the mark. The embedding's norm stays below the bound."""
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
    """Make the next file that is synced the last thing this process does, half of it written."""
    sync = os.fsync

    def last(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode) and when():
            os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
            die()
        sync(descriptor)

    os.fsync = last


def die_before_line(number: int) -> None:
    """Make the line of the store that is the ``number``th to be reached the last thing this process does."""
    reached = 0

    def look(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal reached
        if frame.f_code.co_filename != store_module.__file__:
            return None
        reached += event == "line"
        if reached > number:
            die()
        return look

    sys.settrace(look)


def killed(act: Callable[[], Any], number: int) -> bool:
    """Whether a process of its own dies in ``act`` before its ``number``th line."""
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

    acts = {"add": lambda: add(NEW), "remove": lambda: store.remove(name), "replace": replace_it}

    def begin(what: str) -> None:
        store.remove(name)
        for unfinished in folder.glob("*.part"):
            unfinished.unlink()
        if what != "add":
            add(OLD)

    for what, act in acts.items():
        number = 0
        begin(what)
        while killed(act, number):
            print(what, flush=True)
            sys.stdin.readline()
            number += 1
            begin(what)


def write_for_ever(store: VoiceStore) -> None:
    for mark in range(10_000):
        name = NAMES[mark % len(NAMES)]
        store.remove(name)
        store.add(voice(name, mark))


def crowd(store: VoiceStore, name: str) -> int:
    """How many of ten voices could be stored."""
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
    folder, what, *more = sys.argv[1:]
    settings = VoiceSettings(folder=Path(folder), max_voices=int(more[1]) if what == "crowd" else 1000)
    owner = more[0] if what == "each line" and more else None
    store = VoiceStore(settings, owner)
    if what == "each line":
        kill_at_each_line(store, Path(folder), shared=owner is None)
    elif what == "crowd":
        print("ready", flush=True)
        sys.stdin.readline()
        print(crowd(store, more[0]), flush=True)
    else:
        print("writing", flush=True)
        if what == "halfway":
            die_halfway()
        write_for_ever(store)


if __name__ == "__main__":
    main()
