"""An engine process with fault injection: ``python -m tests.faults.broken_worker``, like ``engine.worker``.

A file in the folder BROKEN_PARTS breaks the part it is named after while it exists, in every engine, or with a process
id as its suffix (``code2wav.123``) in one: ``code2wav`` fails every batch, ``talker`` fails every step, ``encoder``
hangs on the next recording. A request with the seed POISON kills the process.
"""

import os
import signal
import threading
from pathlib import Path

from engine import worker
from engine.cloning.encoder import ReferenceEncoder
from engine.code2wav.cpu import StreamDecoder
from engine.talker.base import no_other_work
from engine.talker.native.talker import NativeTalker

POISON = 666
_launch, _encode = StreamDecoder.launch, ReferenceEncoder.encode_all
_step, _admit = NativeTalker.step, NativeTalker.admit


def broken(part):
    parts = Path(os.environ["BROKEN_PARTS"])
    return (parts / part).exists() or (parts / f"{part}.{os.getpid()}").exists()


def launch(self, rows, codes):
    if broken("code2wav"):
        raise RuntimeError("Code2Wav is broken for a test")
    return _launch(self, rows, codes)


def step(self, paused, other_work=no_other_work):
    if broken("talker"):
        raise RuntimeError("the talker is broken for a test")
    return _step(self, paused)


def admit(self, stream, prompt, sampling, **options):
    if sampling.seed == POISON:
        os.kill(os.getpid(), signal.SIGKILL)
    return _admit(self, stream, prompt, sampling, **options)


def encode(self, requests):
    if broken("encoder"):
        threading.Event().wait()
    return _encode(self, requests)


def main():
    StreamDecoder.launch, ReferenceEncoder.encode_all = launch, encode
    NativeTalker.step, NativeTalker.admit = step, admit
    worker.main()


if __name__ == "__main__":
    main()
