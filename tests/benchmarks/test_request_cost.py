"""``benchmarks.http.request_cost`` as a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_costs_are_printed_for_concurrent_requests_and_bursts() -> None:
    command = [
        sys.executable,
        "-m",
        "benchmarks.http.request_cost",
        "--requests",
        "20",
        "--at-once",
        "2",
        "--bursts",
        "3",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    _, _, crowd, burst = done.stdout.splitlines()
    assert crowd.startswith("2 at once ")
    assert burst.startswith("burst of 3 ")
    assert all(float(figure.replace(",", "")) > 0 for line in (crowd, burst) for figure in line[12:].split())
