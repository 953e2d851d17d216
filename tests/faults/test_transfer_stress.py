"""Stress test: no wakeup and no record is lost between two processes with random pauses on a busy machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.transfer import pair, spawn

PEER = Path(__file__).with_name("transfer_peer.py")
ROOT = PEER.parents[2]
TIMEOUT = 110.0
DIVISOR = int(os.environ.get("STRESS_DIVISOR", "1"))
"""Divides the number of records, for emulated processors."""


@pytest.fixture
def cpu_load():
    """A process that keeps a core busy."""
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    yield
    busy.kill()
    busy.wait()


@pytest.mark.timeout(2 * TIMEOUT)
@pytest.mark.parametrize(
    ("records", "streams", "size", "window", "capacity", "every", "spin"),
    [
        pytest.param(900_000, 8, 0, 64, 1 << 20, 1000, 0, id="credit runs out"),
        pytest.param(60_000, 1, 0, 1, 1 << 20, 1000, 200e-6, id="each record waits for one wakeup"),
        pytest.param(60_000, 4, 100, 1 << 20, 512, 500, 0, id="ring runs full"),
        pytest.param(4_000, 3, 5_000, 16, 1 << 12, 50, 0, id="payloads larger than the ring"),
    ],
)
def test_every_record_arrives_once_and_in_order(cpu_load, records, streams, size, window, capacity, every, spin):
    records //= DIVISOR
    near, far = pair(window=window, capacity=capacity)
    numbers = {"records": records, "streams": streams, "size": size, "every": every, "spin": spin}
    options = [f"--{name}={value}" for name, value in numbers.items()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(PEER)]
    producer = spawn([*command, "produce", near.to_argument(), *options], [near], env=environment)
    consumer = spawn([*command, "consume", far.to_argument(), *options], [far], env=environment, stdout=subprocess.PIPE)
    try:
        counts, _ = consumer.communicate(timeout=TIMEOUT)
        assert consumer.returncode == 0
        assert json.loads(counts) == [records // streams] * streams
        assert producer.wait(TIMEOUT) == 0
    finally:
        for process in (producer, consumer):
            process.kill()
            process.wait()
