"""``benchmarks.lib.mps`` with a stand-in for NVIDIA's program, which records its input."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.lib.serving import ROOT

CONTROL = """#!/bin/sh
if [ "$1" = -d ]; then echo started in "$CUDA_MPS_PIPE_DIRECTORY" >>"$RECORD"; echo no GPU >&2; exit "$STATUS"; fi
cat >>"$RECORD"
"""


def environment_of(folder: Path, status: int = 0) -> dict[str, str]:
    """Return an environment in which NVIDIA's program is the stand-in. status: its exit status."""
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    return environment | {"PYTHONPATH": str(folder), "RECORD": str(folder / "record"), "STATUS": str(status)}


def run_mps(folder: Path, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.lib.mps", *words]
    return subprocess.run(
        command, cwd=ROOT, env=environment_of(folder, status), capture_output=True, text=True, timeout=60
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tool = tmp_path / "nvidia-cuda-mps-control"
    tool.write_text(CONTROL)
    tool.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("status", [0, 3])
def test_the_daemon_runs_as_long_as_the_module(status: int, folder: Path) -> None:
    (folder / "prints.py").write_text(
        "import os, sys\nprint(os.environ['CUDA_MPS_PIPE_DIRECTORY'])\nexit(int(sys.argv[1]))"
    )
    done = run_mps(folder, "prints", str(status))
    started, ended = (folder / "record").read_text().splitlines()
    assert done.returncode == status, done.stderr
    assert started == f"started in {done.stdout.splitlines()[0]}"
    assert ended == "quit"
    assert not Path(started.removeprefix("started in ")).exists()


def test_the_daemon_is_stopped_when_the_run_is_terminated(folder: Path) -> None:
    (folder / "waits.py").write_text("import time\nprint('here', flush=True)\ntime.sleep(60)")
    command = [sys.executable, "-m", "benchmarks.lib.mps", "waits"]
    environment = environment_of(folder)
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.terminate()
        assert process.wait(30) == 143
    assert (folder / "record").read_text().splitlines()[-1] == "quit"


def test_a_daemon_that_does_not_start_is_reported(folder: Path) -> None:
    done = run_mps(folder, "calendar", status=5)
    assert (done.returncode, done.stdout) == (1, "")
    assert "nvidia-cuda-mps-control -d exited with status 5: no GPU" in done.stderr


def test_a_missing_program_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run_mps(tmp_path, "calendar")
    assert (done.returncode, done.stdout) == (1, "")
    assert "nvidia-cuda-mps-control was not found on PATH" in done.stderr
