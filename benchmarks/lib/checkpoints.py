"""Writes the random checkpoints for benchmarks, if they do not exist.

python -m benchmarks.lib.checkpoints NAME FOLDER

NAME is "full-size" (the size of the published 0.6B model with built-in voices), a name such as "full-size-1.7b-base" (a
size and a kind of ``benchmarks.lib.fullsize``), or one of ``tests.support.random_checkpoint.VARIANTS``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.lib.fullsize import KINDS, SIZES, write_full_size
from tests.support.random_checkpoint import write_checkpoint

FULL_SIZE = "full-size"
_FULL_SIZES = {FULL_SIZE: ("0.6b", "custom_voice")} | {
    f"{FULL_SIZE}-{size}-{kind}": (size, kind) for size in SIZES for kind in KINDS
}


def main() -> None:
    """Write the checkpoint unless it exists. A folder with a config.json is complete, because it is written last."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    if (folder / "config.json").exists():
        return
    print(f"writing {folder}", file=sys.stderr)
    if name in _FULL_SIZES:
        write_full_size(folder, *_FULL_SIZES[name])
    else:
        write_checkpoint(folder, name)


if __name__ == "__main__":
    main()
