"""The virtual environment of the official reference implementation, created once and reused."""

from __future__ import annotations

import subprocess
import sys
import venv
from importlib.metadata import version
from pathlib import Path

_REFERENCE = "qwen-tts==0.1.1"
_REQUIREMENTS = ("transformers==4.57.3", "accelerate==1.12.0")
"""The dependencies that its 12 Hz models need; ``stand_ins`` replaces the others."""
_TIMEOUT_S = 3600.0


def reference_python(folder: Path) -> str:
    """Return the Python executable of the environment in ``folder``, which has the same torch release as this one.

    Creates the environment if it is missing or outdated. pip reads its own settings (PIP_INDEX_URL, ...).
    """
    torch = "torch==" + version("torch").partition("+")[0]
    stamp, content = folder / ".installed", "\n".join((torch, *_REQUIREMENTS, _REFERENCE))
    python = str(folder / "bin" / "python")
    if not stamp.exists() or stamp.read_text() != content:
        print(f"creating {folder} with {_REFERENCE}", file=sys.stderr)
        venv.create(folder, clear=True, with_pip=True)
        _pip(python, torch, *_REQUIREMENTS)
        _pip(python, "--no-deps", _REFERENCE)
        stamp.write_text(content)
    return python


def _pip(python: str, *arguments: str) -> None:
    subprocess.run([python, "-m", "pip", "install", "-q", *arguments], check=True, timeout=_TIMEOUT_S)
