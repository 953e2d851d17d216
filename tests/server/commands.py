"""The project's commands, as processes."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.server.serving import PATIENCE, ROOT


def ran(module: str, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """``python -m module`` to its end, with further environment variables."""
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
