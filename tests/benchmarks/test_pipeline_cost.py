"""``benchmarks.cpu.pipeline_cost`` as a process: the whole pipeline with stand-ins for both models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_costs_are_printed_for_both_placements() -> None:
    command = [sys.executable, "-m", "benchmarks.cpu.pipeline_cost", "--listeners", "3", "--seconds", "0.5"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    _, *tables = done.stdout.split("\n\n")
    for placement, table in zip(("thread", "process"), tables, strict=True):
        name, _, figures = table.strip().splitlines()
        listeners, frames, chunks, *_ = figures.split()
        assert (name, listeners) == (placement, "3")
        assert float(frames.replace(",", "")) > float(chunks.replace(",", "")) > 0
