"""``benchmarks.serve`` as a process, on a machine whose GPU is a stand-in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

from tests.conftest import UntrainedCheckpoints

ROOT = Path(__file__).parents[2]
LOADS = ["--rate", "8", "--rate", "10", "-n", "12", "--even", "--frames", "6"]
NVIDIA_SMI = """#!/bin/sh
echo "0, 55, 12345, 300.5"
echo "1, 5, [N/A], 80.0"
"""


def test_a_deployment_is_started_measured_and_stopped(checkpoints: UntrainedCheckpoints, tmp_path: Path) -> None:
    config, report = tmp_path / "sonant.yaml", tmp_path / "report.json"
    engine = {"model": str(checkpoints["pocket"]), "device": "cpu", "threads": 1}
    config.write_text(yaml.safe_dump({"engine": engine, "voices": {"folder": str(tmp_path / "voices")}}))
    tool = tmp_path / "nvidia-smi"
    tool.write_text(NVIDIA_SMI)
    tool.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.serve", "--config", config, "--json", report, *LOADS],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert "start to ready" in done.stdout
    assert "8 a second: GPU 0 55.0 % busy, 55.0 at most, 12,345 MiB, 300.5 W" in done.stdout
    found = json.loads(report.read_text())
    assert found["start_to_ready_seconds"] > 0
    assert [(load["load"], load["outcomes"]) for load in found["loads"]] == [
        ("8 a second", {"ok": 12}),
        ("10 a second", {"ok": 12}),
    ]
    assert [list(load["gpus"]) for load in found["loads"]] == [["0"], ["0"]], "of GPU 1 too little is known"
