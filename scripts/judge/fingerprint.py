"""What decides how a checkpoint sounds here: its files and the engine's source."""

from __future__ import annotations

import hashlib
from pathlib import Path

from scripts.judge.places import ROOT


def fingerprint(checkpoint: Path) -> str:
    """The same for the same files; recordings are kept under it."""
    digest = hashlib.sha256()
    for folder, pattern in ((checkpoint, "*"), (ROOT / "engine", "*.py")):
        for file in sorted(path for path in folder.rglob(pattern) if path.is_file()):
            digest.update(str(file.relative_to(folder)).encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
