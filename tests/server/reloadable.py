"""A real server whose configuration tests change while it runs."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import yaml

from server.cli.reload import request_reload
from tests.server.commands import run_module
from tests.server.serving import TIMEOUT, Serving, engine_settings, write_config
from tests.support.random_checkpoint import RandomCheckpoints


class ReloadableServer:
    """A server with two random checkpoints, and its configuration file."""

    def __init__(self, folder: Path, checkpoints: RandomCheckpoints, **settings: Any) -> None:
        self.folder, self.checkpoints = folder, checkpoints
        self.file = self.write(**settings)
        self.server = Serving(self.file)

    def write(self, *models: dict[str, Any], **settings: Any) -> Path:
        """Write the configuration: of one model with these settings, or of several models."""
        if not models:
            return write_config(self.folder, self.checkpoints["pocket"], **settings)
        path = self.folder / "sonant.yaml"
        voices = {"folder": str(self.folder / "voices")}
        path.write_text(yaml.safe_dump({"models": [*models], "voices": voices, **settings}))
        return path

    def model(self, name: str, checkpoint: str = "pocket") -> dict[str, Any]:
        """An entry of ``models``."""
        return {"name": name, "engine": engine_settings(self.checkpoints[checkpoint])}

    def reload(self) -> subprocess.CompletedProcess[str]:
        """Run ``sonant reload``."""
        return run_module("server.cli", "reload", "--pid", self.server.process.pid)

    def change(self, *models: dict[str, Any], **settings: Any) -> str:
        """Write the configuration, reload it as ``sonant reload`` does, and return the message that it prints."""
        self.write(*models, **settings)
        before = len(self.server.lines)
        ok, message = request_reload(self.server.process.pid)
        assert ok, message
        self.wait_for_log(before, "reloaded the configuration")
        return message

    def engines(self) -> set[int]:
        """The process ids of all engines."""
        engines = set()
        for child in self.server.processes().http.children():
            with suppress(psutil.NoSuchProcess):  # it has ended since
                if any("engine.worker" in word for word in child.cmdline()):
                    engines.add(child.pid)
        return engines

    def settled(self, count: int = 1) -> set[int]:
        """Wait until ``count`` engines run, and return their process ids."""
        deadline = time.monotonic() + TIMEOUT
        while len(engines := self.engines()) != count:
            assert time.monotonic() < deadline, engines
            time.sleep(0.02)
        return engines

    def wait_for_log(self, start: int, text: str) -> None:
        """Wait until the log has ``text`` after its first ``start`` lines."""
        server = self.server
        with server._log_changed:
            assert server._log_changed.wait_for(lambda: any(text in line for line in server.lines[start:]), TIMEOUT)
