"""Pages read as their readers do: every block pasted into one shell, from top to bottom."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.docs.blocks import ROOT, RUN, Block, blocks_of

PATIENCE = 200.0

_PROGRAMS = {"python": ("python", "py"), "js": ("node", "mjs")}
_FOLDERS = {".venv": Path(sys.prefix), "scripts": ROOT / "scripts", "models": ROOT / "models"}
"""What blocks name of the project's folder."""


@dataclass(frozen=True)
class Reading:
    """What came of a page. ``done``: the lines of the blocks that ran to their end; ``told``: all that was printed."""

    folder: Path
    done: frozenset[int]
    told: str


def read(page: Path, folder: Path, environment: Mapping[str, str], instead: Mapping[str, str]) -> Reading:
    """Run the blocks of a page in ``folder``, up to the first that fails. ``instead``: texts to put for others."""
    for name, target in _FOLDERS.items():
        (folder / name).symlink_to(target)
    script = folder / "page.sh"
    blocks = [block for block in blocks_of(page) if block.language in RUN and not block.reason]
    script.write_text("set -eo pipefail\n" + "".join(_command(block, folder, instead) for block in blocks))
    told = _bash(script, environment)
    done = folder / "done"
    return Reading(folder, frozenset(map(int, done.read_text().split())) if done.exists() else frozenset(), told)


def _command(block: Block, folder: Path, instead: Mapping[str, str]) -> str:
    """What the shell is given for a block: its lines, or the program that runs them."""
    code = block.code
    for there, here in instead.items():
        code = code.replace(there, here)
    if block.language in _PROGRAMS:
        program, suffix = _PROGRAMS[block.language]
        file = folder / f"line-{block.line}.{suffix}"
        file.write_text(code)
        code = f"{program} {file.name}\n"
    return f"echo '[{block.name}]'\n{code}echo {block.line} >> {folder / 'done'}\n"


def _bash(script: Path, environment: Mapping[str, str]) -> str:
    """All that a script prints. Nothing it started is left behind."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SONANT_")}
    with subprocess.Popen(
        ["bash", script.name],
        cwd=script.parent,
        env={**inherited, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as shell:
        try:
            return shell.communicate(timeout=PATIENCE)[0]
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)
