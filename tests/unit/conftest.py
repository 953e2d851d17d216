"""Fixtures for unit tests."""

from pathlib import Path

import pytest

from engine.checkpoint.folder import Checkpoint, open_checkpoint
from engine.device import timing_cache


@pytest.fixture(autouse=True)
def times_folder(tmp_path, monkeypatch) -> Path:
    """A folder for measured times, without any, instead of the user's."""
    folder = tmp_path / "times"
    monkeypatch.setattr(timing_cache, "cache_folder", lambda: folder)
    monkeypatch.setattr(timing_cache, "_measured", {})
    monkeypatch.setattr(timing_cache, "_ignored", False)
    timing_cache._digest.cache_clear()
    timing_cache._log_once.cache_clear()
    return folder


@pytest.fixture(scope="session")
def opened(checkpoints) -> dict[str, Checkpoint]:
    """Every random checkpoint, opened: variant -> checkpoint."""
    return {variant: open_checkpoint(str(checkpoints[variant])) for variant in checkpoints}
