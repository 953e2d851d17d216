"""The next step is launched shortly before the GPU ends the one in flight."""

import pytest

from engine.talker.vllm.step_clock import StepClock

LAUNCH = 0.001


class Gpu:
    """A GPU whose steps take ``seconds`` each, and a host that launches them in ``LAUNCH`` seconds."""

    def __init__(self):
        self.clock, self.now, self.free_at, self.idle = StepClock(), 100.0, 0.0, 0.0
        self._launch(0.004)
        self.clock.started(self.now)

    def _launch(self, seconds):
        self.now += LAUNCH
        self.idle += max(0.0, self.now - self.free_at) if self.free_at else 0.0
        self.ending, self.free_at = self.free_at, max(self.now, self.free_at) + seconds

    def step(self, seconds, late=0.0):
        """Wait until a step is due, and ``late`` seconds more, launch it, and wait for the end of the one before.

        Returns how long before the end of that one the launch began.
        """
        self.now += max(0.0, self.clock.due_in(self.now)) + late
        called = self.now
        self._launch(seconds)
        launched, self.now = self.now, max(self.now, self.ending)
        self.clock.ended(called, launched, self.now)
        return self.ending - called


def test_steps_are_launched_shortly_before_the_gpu_is_idle():
    gpu = Gpu()
    ahead = [gpu.step(0.004) for _ in range(30)]
    assert ahead[0] > 0.0025
    assert ahead[-1] == pytest.approx(LAUNCH + 0.0005)
    assert gpu.idle == 0


def test_the_shortest_of_the_last_steps_is_expected():
    gpu = Gpu()
    for _ in range(10):
        for seconds in (0.004, 0.009, 0.009, 0.009):
            gpu.step(seconds)
    assert gpu.idle == 0


def test_late_launches_do_not_make_later_launches_late():
    gpu = Gpu()
    for _ in range(20):
        gpu.step(0.004)
    for _ in range(20):
        gpu.step(0.004, late=0.003)
    before = gpu.idle
    for _ in range(20):
        gpu.step(0.004)
    assert gpu.idle - before < 0.004


def test_shorter_steps_are_expected_soon():
    gpu = Gpu()
    for _ in range(20):
        gpu.step(0.010)
    gpu.step(0.003)
    before = gpu.idle
    for _ in range(20):
        gpu.step(0.003)
    assert gpu.idle - before < 0.015


def test_the_first_steps_are_launched_at_once():
    assert StepClock().due_in(0.0) == 0.0
