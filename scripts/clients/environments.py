"""An environment of its own for each client, below ``.clients``, which is kept for the next run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from scripts.clients.catalog import Client

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".clients"
_INSTALL_SECONDS = 1800.0
_BUNDLE = "open_webui/frontend/_app/immutable"


class Environment:
    """The installed packages of a client."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.folder = CACHE / client.folder

    def install(self) -> None:
        """Install the packages unless they are. Delete the folder to get newer versions."""
        marker = self.folder / "installed"
        if marker.exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        print(f"installing {', '.join(self.client.packages)}", file=sys.stderr, flush=True)
        if self.client.name == "Open WebUI":
            self._unpack_wheel()
        elif self.client.language == "python":
            _run([sys.executable, "-m", "venv", self.folder / "venv"])
            _run([self._python, "-m", "pip", "install", "-q", *self.client.packages])
        else:
            (self.folder / "package.json").write_text('{"type": "module", "private": true}')
            _run(["npm", "install", "--silent", "--prefix", self.folder, *self.client.packages])
        marker.touch()

    def command(self, program: Path) -> list[str]:
        """Return the command that runs ``program`` with the client's packages."""
        return [str(self._python) if self.client.language == "python" else "node", str(program)]

    @property
    def version(self) -> str:
        """The installed version of the client's first package."""
        name = self.client.packages[0].partition("[")[0]
        if self.client.name == "Open WebUI":
            return next(self.folder.glob("*.whl")).name.split("-")[1]
        if self.client.language == "js":
            version: str = json.loads((self.folder / "node_modules" / name / "package.json").read_text())["version"]
            return version
        query = f"import importlib.metadata; print(importlib.metadata.version({name!r}))"
        return subprocess.check_output([self._python, "-c", query], text=True).strip()

    @property
    def _python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    def _unpack_wheel(self) -> None:
        """Extract the scripts of the web page from the wheel."""
        _run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", self.folder, *self.client.packages])
        wheel = next(self.folder.glob("*.whl"))
        _run(["unzip", "-q", "-o", wheel, f"{_BUNDLE}/*", "-d", self.folder])
        (self.folder / _BUNDLE / "package.json").write_text('{"type": "module"}')


def _run(command: list[str | os.PathLike[str]]) -> None:
    subprocess.run(command, check=True, timeout=_INSTALL_SECONDS)
