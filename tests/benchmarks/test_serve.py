"""``benchmarks.http.serve`` as a process, on a machine whose GPU is a stand-in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.http.serve import gpu_memory_line, incomplete_loads, run_bench
from tests.server.serving import engine_settings
from tests.support.random_checkpoint import RandomCheckpoints

ROOT = Path(__file__).parents[2]
LOADS = ["--rate", "8", "--rate", "10", "-n", "12", "--even", "--frames", "6"]
NVIDIA_SMI = """#!/bin/sh
echo "0, 55, 12345, 300.5"
echo "1, 5, [N/A], 80.0"
"""


PIECES = ["--piece", "alone", "--piece", "clone", "--piece", "capacity", "--voice", "ryan", "-n", "3", "--frames", "6"]


def run_benchmark(checkpoint: Path, folder: Path, *options: str) -> tuple[str, dict[str, Any]]:
    """Run the benchmark and return its output and its report."""
    config, report_file = folder / "sonant.yaml", folder / "report.json"
    config.write_text(yaml.safe_dump({"engine": engine_settings(checkpoint)}))
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.http.serve", "--config", config, "--json", report_file, *options],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(report_file.read_text())


def test_a_deployment_is_started_measured_and_stopped(checkpoints: RandomCheckpoints, tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(NVIDIA_SMI)
    tool.chmod(0o755)
    printed, report = run_benchmark(checkpoints["pocket"], tmp_path, *LOADS, "--all-answered")
    assert "start to ready" in printed
    assert "8 a second: GPU 0 55.0 % busy, 55.0 % at most, 12,345 MiB, 300.5 W" in printed
    assert report["start_to_ready_seconds"] > 0
    assert [(load["load"], load["outcomes"]) for load in report["loads"]] == [
        ("8 a second", {"ok": 12}),
        ("10 a second", {"ok": 12}),
    ]
    assert [list(load["gpus"]) for load in report["loads"]] == [["0"], ["0"]], (
        "a sample with an unsupported value is skipped"
    )


def test_pieces_of_a_plan_are_reported_one_by_one(checkpoints: RandomCheckpoints, tmp_path: Path) -> None:
    search = ["--first", "2", "--most", "2", "--trial-seconds", "1", "--wait", "30"]
    printed, report = run_benchmark(checkpoints["pocket"], tmp_path, *PIECES, *search)
    assert [(load["piece"], load["load"], load["outcomes"]) for load in report["loads"]] == [
        ("alone", "1 at once", {"ok": 3}),
        ("clone", "20 a second", {"ok": 3}),
        ("clone", "1 at once", {"ok": 3}),
    ]
    assert report["capacity"]["clients"] == 2, "a buffer of 30 s prevents underruns"
    assert "2 real-time clients are sustained; more were not tried" in printed


def test_the_line_about_gpu_memory_is_found_in_the_log() -> None:
    line = "GPU memory: 24.0 GiB may be taken: talker 4.0, 3.1 left; the cache has 9,000 positions"
    assert gpu_memory_line(f"INFO engine.device.memory: {line}\nINFO GPU memory: again") == [line]
    assert gpu_memory_line(f'{{"message": "{line}", "level": "info"}}') == [line]
    assert gpu_memory_line("on a CPU there is no such line") == []


def test_loads_with_failed_requests_are_listed() -> None:
    loads = [{"load": "1 at once", "outcomes": {"ok": 9}}, {"load": "2 at once", "outcomes": {"ok": 8, "timeout": 1}}]
    assert incomplete_loads(loads) == {"2 at once": {"ok": 8, "timeout": 1}}
    assert incomplete_loads([{"load": "1 at once", "outcomes": {}}]) == {"1 at once": {}}


@pytest.mark.parametrize(("status", "ends_with"), [(0, "sonant bench wrote no report"), (3, 3)])
def test_a_load_that_measures_nothing_is_a_failure(
    status: int, ends_with: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, status))
    with pytest.raises(SystemExit) as raised:
        run_bench("http://127.0.0.1:1", [])
    assert raised.value.code == ends_with
