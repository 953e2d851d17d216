"""The random checkpoints that benchmarks run on, made where they are missing.

python -m benchmarks.checkpoints NAME FOLDER

NAME is "full-size" (the published 0.6B model's) or one of ``engine.untrained.VARIANTS``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.fullsize import write_full_size
from engine.untrained import write_checkpoint

FULL_SIZE = "full-size"


def main() -> None:
    """Write the checkpoint if it is not there. A folder that has a config.json is whole: it comes last."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    if (folder / "config.json").exists():
        return
    print(f"writing {folder}", file=sys.stderr)
    if name == FULL_SIZE:
        write_full_size(folder)
    else:
        write_checkpoint(folder, name)


if __name__ == "__main__":
    main()
