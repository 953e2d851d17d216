"""The random checkpoint of a first start."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from engine.errors import CheckpointError
from engine.untrained.checkpoint import write_checkpoint

VARIANT = "pocket"


def ensure_checkpoint(folder: str) -> bool:
    """Write the untrained pocket checkpoint to ``folder`` if nothing is there; whether it was written.

    It appears whole or not at all, also when several processes start at once. Raises CheckpointError where nothing
    can be written.
    """
    place = Path(folder)
    if place.exists():
        return False
    try:
        _write_whole(place)
    except OSError as error:
        if not place.exists():
            raise CheckpointError(f"{place} is missing and cannot be made: {error.strerror}") from error
        return False
    return True


def _write_whole(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
    try:
        write_checkpoint(draft, VARIANT)
        draft.chmod(0o755)
        draft.rename(place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
