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
CASES = {
    "credit runs out": (
        {"window": 64, "capacity": 1 << 20},
        {"records": 900_000, "streams": 8, "size": 0, "every": 1000, "spin": 0},
    ),
    "each record waits for one wakeup": (
        {"window": 1, "capacity": 1 << 20},
        {"records": 60_000, "streams": 1, "size": 0, "every": 1000, "spin": 200e-6},
    ),
    "ring runs full": (
        {"window": 1 << 20, "capacity": 512},
        {"records": 60_000, "streams": 4, "size": 100, "every": 500, "spin": 0},
    ),
    "payloads larger than the ring": (
        {"window": 16, "capacity": 1 << 12},
        {"records": 4_000, "streams": 3, "size": 5_000, "every": 50, "spin": 0},
    ),
}
"""The link and the peers' options of each case."""


@pytest.fixture(scope="module")
def runs():
    """A producer and a consumer for each case. All run at the same time, which keeps a machine with few cores busy."""
    started = {}
    for name, (link, case) in CASES.items():
        near, far = pair(**link)
        numbers = case | {"records": case["records"] // DIVISOR}
        options = [f"--{option}={value}" for option, value in numbers.items()]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, str(PEER)]
        producer = spawn([*command, "produce", near.to_argument(), *options], [near], env=environment)
        consumer = spawn(
            [*command, "consume", far.to_argument(), *options], [far], env=environment, stdout=subprocess.PIPE
        )
        started[name] = (producer, consumer)
    yield started
    for process in (each for both in started.values() for each in both):
        process.kill()
        process.wait()


@pytest.mark.timeout(2 * TIMEOUT)
@pytest.mark.parametrize("name", CASES)
def test_every_record_arrives_once_and_in_order(runs, name):
    producer, consumer = runs[name]
    counts, _ = consumer.communicate(timeout=TIMEOUT)
    assert consumer.returncode == 0
    _, case = CASES[name]
    assert json.loads(counts) == [case["records"] // DIVISOR // case["streams"]] * case["streams"]
    assert producer.wait(TIMEOUT) == 0
