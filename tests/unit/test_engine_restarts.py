"""The back-off between restarts of an engine process."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from engine.client.process import EngineProcess
from engine.client.restarts import EngineRestarts


async def _close() -> None:
    """Do nothing."""


WORKER = cast(EngineProcess, SimpleNamespace(close=_close, process=SimpleNamespace(returncode=1)))
"""A process that was lost."""


class Restarts:
    """Restarts of an engine that is ready at once and lost after some seconds. pauses: those before the restarts."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self.started = asyncio.Event()
        self.restarts = EngineRestarts(self.started.set, clock=lambda: self.now, sleep=self.sleep)
        self.restarts.start()

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def lose_after(self, seconds: float, *, ready: bool = True) -> None:
        """Let the engine be ready, and lose it after ``seconds``. Wait for the next start."""
        self.started.clear()
        if ready:
            self.restarts.mark_ready()
        self.now += seconds
        self.restarts.replace(WORKER, "crashed")
        await self.started.wait()


async def test_an_engine_that_crashes_at_its_first_request_is_restarted_ever_later() -> None:
    engine = Restarts()
    for _ in range(8):
        await engine.lose_after(5.0)
    assert engine.pauses == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert engine.restarts.counts["crashed"] == 8


async def test_a_minute_of_service_resets_the_back_off() -> None:
    engine = Restarts()
    for seconds in (5.0, 59.0, 60.0, 5.0):
        await engine.lose_after(seconds)
    assert engine.pauses == [0.5, 1, 0.5, 1]


async def test_time_before_the_engine_is_ready_does_not_reset_the_back_off() -> None:
    engine = Restarts()
    await engine.lose_after(5.0)
    for seconds in (600.0, 600.0):
        await engine.lose_after(seconds, ready=False)
    assert engine.pauses == [0.5, 1, 2]


@pytest.mark.parametrize("error", [OSError("no memory"), ValueError("a defect")])
async def test_a_start_that_fails_is_tried_again_later(error: Exception) -> None:
    engine = Restarts()
    outcomes = iter([error, None])

    def launch() -> None:
        if (outcome := next(outcomes)) is not None:
            raise outcome
        engine.started.set()

    engine.restarts = EngineRestarts(launch, clock=lambda: engine.now, sleep=engine.sleep)
    await engine.lose_after(5.0)
    assert engine.pauses == [0.5, 1]
