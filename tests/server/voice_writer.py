"""A process that stores and deletes voices until it is killed: ``python voice_writer.py FOLDER [STEP]``.

With a step, such as "before link", it kills itself at that moment of the first voice's storing.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

from server.voices.config import VoiceSettings
from server.voices.store import VoiceStore
from server.voices.stored import StoredVoice

FRAMES = 375
WIDTH = 2048
NAMES = tuple(f"voice{number}" for number in range(8))


def voice(name: str, mark: int) -> StoredVoice:
    """A voice whose every number tells the mark."""
    return StoredVoice(
        name=name,
        origin="audio_sample",
        created_at=mark,
        model="pocket",
        embedding=np.full(WIDTH, mark, np.float32),
        codes=np.full((FRAMES, 16), mark, np.int16),
        transcript=str(mark) * 100,
    )


def die_at(step: str) -> None:
    """Make one of os's calls the last thing this process does: "after link", or "halfway fsync", with half a file."""
    when, name = step.split()
    call = getattr(os, name)

    def last(*arguments: Any, **options: Any) -> None:
        if when == "halfway":
            os.ftruncate(arguments[0], os.fstat(arguments[0]).st_size // 2)
        if when == "after":
            call(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(os, name, last)


def main() -> None:
    folder, *step = sys.argv[1:]
    store = VoiceStore(VoiceSettings(folder=Path(folder)))
    print("writing", flush=True)
    if step:
        die_at(step[0])
        store.add(voice(NAMES[0], 1))
    for mark in range(10_000):
        name = NAMES[mark % len(NAMES)]
        store.remove(name)
        store.add(voice(name, mark))


if __name__ == "__main__":
    main()
