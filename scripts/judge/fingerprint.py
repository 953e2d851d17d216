"""A hash of what determines the speech of a checkpoint: its files, and the sources of engine, guards and aligner."""

from __future__ import annotations

import hashlib
from pathlib import Path

from scripts.judge.paths import ROOT


def fingerprint(checkpoint: Path) -> str:
    """Return the hash. Recordings are cached under it."""
    digest = hashlib.sha256()
    for folder, pattern in (
        (checkpoint, "*"),
        (ROOT / "engine", "*.py"),
        (ROOT / "server" / "guards", "*.py"),
        (ROOT / "server" / "alignment", "*.py"),
        (ROOT / "server" / "alignment", "*.npz"),
    ):
        for file in sorted(path for path in folder.rglob(pattern) if path.is_file()):
            digest.update(str(file.relative_to(folder)).encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
