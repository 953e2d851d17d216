"""The random checkpoint of a first start."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from engine.untrained.checkpoint import write_checkpoint

VARIANT = "pocket"


def ensure_checkpoint(folder: str) -> bool:
    """Write the untrained pocket checkpoint to ``folder`` if nothing is there; whether it was written.

    It appears whole or not at all, also when several processes start at once.
    """
    place = Path(folder)
    if place.exists():
        return False
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
    try:
        write_checkpoint(draft, VARIANT)
        draft.chmod(0o755)
        draft.rename(place)
    except OSError:
        if not place.exists():
            raise
        return False
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return True
