"""Run pages as their readers do: every block pasted into one shell, from top to bottom."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.docs.blocks import ROOT, RUN, Block, blocks_of

TIMEOUT = 200.0

_PROGRAMS = {"python": ("python", "py"), "js": ("node", "mjs")}
_FOLDERS = {".venv": Path(sys.prefix), "scripts": ROOT / "scripts", "models": ROOT / "models"}
"""Paths in the project folder that blocks use."""


@dataclass(frozen=True)
class PageRun:
    """The result of running a page. ``done``: lines of the blocks that succeeded; ``output``: everything printed."""

    folder: Path
    done: frozenset[int]
    output: str


def run_page(page: Path, folder: Path, environment: Mapping[str, str], replacements: Mapping[str, str]) -> PageRun:
    """Run the blocks of a page in ``folder`` up to the first that fails, with ``replacements`` in their text."""
    for name, target in _FOLDERS.items():
        (folder / name).symlink_to(target)
    script = folder / "page.sh"
    blocks = [block for block in blocks_of(page) if block.language in RUN and not block.reason]
    script.write_text("set -eo pipefail\n" + "".join(_command(block, folder, replacements) for block in blocks))
    output = _bash(script, environment)
    done = folder / "done"
    return PageRun(folder, frozenset(map(int, done.read_text().split())) if done.exists() else frozenset(), output)


def _command(block: Block, folder: Path, replacements: Mapping[str, str]) -> str:
    """The shell commands of a block: its lines, or the program that runs them."""
    code = block.code
    for original, replacement in replacements.items():
        code = code.replace(original, replacement)
    if block.language in _PROGRAMS:
        program, suffix = _PROGRAMS[block.language]
        file = folder / f"line-{block.line}.{suffix}"
        file.write_text(code)
        code = f"{program} {file.name}\n"
    return f"echo '[{block.name}]'\n{code}echo {block.line} >> {folder / 'done'}\n"


def _bash(script: Path, environment: Mapping[str, str]) -> str:
    """The output of a script. Kills everything it started."""
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
            return shell.communicate(timeout=TIMEOUT)[0]
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)
