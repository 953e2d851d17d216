"""The next step is launched shortly before the step in flight ends."""

import pytest

from engine.talker.vllm.step_clock import StepClock

LAUNCH = 0.001


class Gpu:
    """A GPU whose steps take ``seconds`` each, and a host that launches them in ``LAUNCH`` seconds.

    collect: seconds that the host takes to notice the end of a step. idle: seconds without a step.
    """

    def __init__(self, collect=0.0):
        self.clock, self.now, self.collect, self.idle = StepClock(), 100.0, collect, 0.0
        self.ending = self.free_at = 0.0
        self.launch(0.004)
        self.clock.started(self.now)

    def launch(self, seconds):
        self.now += LAUNCH
        self.idle += max(0.0, self.now - self.free_at) if self.free_at else 0.0
        self.ending, self.free_at = self.free_at, max(self.now, self.free_at) + seconds

    def step(self, seconds, late=0.0, *, waited=False):
        """Wait until a step is due, and ``late`` seconds more, launch it, and wait for the end of the previous one.

        Returns how long before that end the launch began.
        """
        self.now += max(0.0, self.clock.due_in(self.now)) + late
        called = self.now
        self.launch(seconds)
        launched, done = self.now, self.now >= self.ending
        self.now = max(self.now, self.ending) + self.collect
        self.clock.ended(called, launched, self.now, late=done, waited=waited)
        return self.ending - called

    def idle_share(self, steps, seconds, late=0.0):
        """Run ``steps`` steps. Return the share of the time in which the GPU was idle."""
        idle, began = self.idle, self.now
        for _ in range(steps):
            self.step(seconds, late)
        return (self.idle - idle) / (self.now - began)


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


@pytest.mark.parametrize("late", [0.0006, 0.001, 0.002])
@pytest.mark.parametrize("collect", [0.0, 0.0002, 0.0006])
def test_a_host_that_is_always_late_leaves_the_gpu_little_idle_time(late, collect):
    assert Gpu(collect).idle_share(500, 0.004, late) < 0.06


def test_shorter_steps_are_expected_at_once():
    gpu = Gpu()
    gpu.idle_share(20, 0.020)
    gpu.step(0.005)
    gpu.step(0.005)
    assert gpu.step(0.005) > 0.003


def test_nothing_is_expected_after_the_gpu_was_idle():
    gpu = Gpu()
    gpu.idle_share(20, 0.020)
    assert gpu.clock.due_in(gpu.now) > 0
    gpu.clock.started(gpu.now)
    assert gpu.clock.due_in(gpu.now) == 0


def test_a_launch_that_waited_for_a_request_does_not_change_the_estimate():
    gpu = Gpu()
    gpu.idle_share(20, 0.004)
    assert gpu.step(0.004, late=0.001, waited=True) < LAUNCH, "the launch was late"
    assert gpu.step(0.004) == pytest.approx(LAUNCH + 0.0005)
    gpu.step(0.004, late=0.001)
    gpu.step(0.004)
    assert gpu.step(0.004) > 0.0025
