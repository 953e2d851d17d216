"""The number of available cores: the cgroup quota counts, not the machine's cores."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.system import cores
from server import app as application
from server.settings import load_settings
from tests.server.serving import write_config


@pytest.fixture
def quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cores, "_CGROUP_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda _: range(16), raising=False)
    return tmp_path / "cpu.max"


@pytest.mark.parametrize(
    ("text", "expected"), [("max 100000", 16), ("200000 100000", 2), ("50000 100000", 1), ("", 16)]
)
def test_a_lower_quota_limits_the_cores(quota: Path, text: str, expected: int) -> None:
    quota.write_text(text)
    assert cores.available_cores() == expected


class Idle:
    """An engine that never starts."""

    def __init__(self, *_: object) -> None: ...

    async def start(self) -> None: ...

    async def wait_ready(self, timeout: float) -> None:
        raise TimeoutError

    async def close(self) -> None: ...


async def test_the_server_has_one_audio_thread_per_core(
    quota: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quota.write_text("300000 100000")
    monkeypatch.setattr(application, "engine_pool", Idle)
    app = application.create_app(load_settings(write_config(tmp_path, tmp_path)))
    async with app.router.lifespan_context(app):
        assert app.state.current_services.services.audio_threads._max_workers == 3
