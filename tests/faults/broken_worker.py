"""An engine process with fault injection: ``python -m tests.faults.broken_worker``, like ``engine.worker``.

A file in the folder BROKEN_PARTS breaks the part it is named after while it exists:
``code2wav`` fails every batch, ``encoder`` hangs on the next recording.
"""

import os
import threading
from pathlib import Path

from engine import worker
from engine.cloning.encoder import ReferenceEncoder
from engine.code2wav.cpu import StreamDecoder

PARTS = Path(os.environ["BROKEN_PARTS"])
_launch, _encode = StreamDecoder.launch, ReferenceEncoder.encode_all


def launch(self, rows, codes):
    if (PARTS / "code2wav").exists():
        raise RuntimeError("Code2Wav is broken for a test")
    return _launch(self, rows, codes)


def encode(self, requests):
    if (PARTS / "encoder").exists():
        threading.Event().wait()
    return _encode(self, requests)


def main():
    StreamDecoder.launch, ReferenceEncoder.encode_all = launch, encode
    worker.main()


if __name__ == "__main__":
    main()
