"""Waiting uses no CPU time."""

import json
import os
import subprocess
import sys
from pathlib import Path

from engine.transfer import Wakeup, pair, spawn

PEER = Path(__file__).with_name("transfer_peer.py")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PEER.parents[2])}


def test_idle_links_use_no_cpu_time():
    links = [pair(window=8) for _ in range(6)]
    sides = [far for _, far in links]
    words = [side.to_argument() for side in sides]
    child = spawn(
        [sys.executable, str(PEER), "idle", *words, "--seconds=1.5"],
        sides,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
    )
    endpoints = [near.attach(Wakeup()) for near, _ in links]
    try:
        for endpoint in endpoints:
            endpoint.open(1)
        out, _ = child.communicate(timeout=60)
        assert json.loads(out) < 0.01
    finally:
        child.kill()
        child.wait()
        for endpoint in endpoints:
            endpoint.close()
