"""``benchmarks.lib.mps`` with a stand-in for NVIDIA's program, which writes down what it is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.lib.serving import ROOT

CONTROL = """#!/bin/sh
if [ "$1" = -d ]; then echo started in "$CUDA_MPS_PIPE_DIRECTORY" >>"$TOLD"; echo no GPU >&2; exit "$STATUS"; fi
cat >>"$TOLD"
"""


def of(folder: Path, status: int = 0) -> dict[str, str]:
    """The environment in which NVIDIA's program is the stand-in, which ends so."""
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    return environment | {"PYTHONPATH": str(folder), "TOLD": str(folder / "told"), "STATUS": str(status)}


def mps(folder: Path, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.lib.mps", *words]
    return subprocess.run(command, cwd=ROOT, env=of(folder, status), capture_output=True, text=True, timeout=60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tool = tmp_path / "nvidia-cuda-mps-control"
    tool.write_text(CONTROL)
    tool.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("status", [0, 3])
def test_a_module_runs_beside_the_daemon_which_ends(status: int, folder: Path) -> None:
    (folder / "said.py").write_text(
        "import os, sys\nprint(os.environ['CUDA_MPS_PIPE_DIRECTORY'])\nexit(int(sys.argv[1]))"
    )
    done = mps(folder, "said", str(status))
    started, ended = (folder / "told").read_text().splitlines()
    assert done.returncode == status, done.stderr
    assert started == f"started in {done.stdout.splitlines()[0]}"
    assert ended == "quit"
    assert not Path(started.removeprefix("started in ")).exists()


def test_the_daemon_ends_where_the_run_is_ended(folder: Path) -> None:
    (folder / "waits.py").write_text("import time\nprint('here', flush=True)\ntime.sleep(60)")
    command = [sys.executable, "-m", "benchmarks.lib.mps", "waits"]
    environment = of(folder)
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.terminate()
        assert process.wait(30) == 143
    assert (folder / "told").read_text().splitlines()[-1] == "quit"


def test_a_daemon_that_does_not_start_is_told_of(folder: Path) -> None:
    done = mps(folder, "calendar", status=5)
    assert (done.returncode, done.stdout) == (1, "")
    assert "nvidia-cuda-mps-control -d has ended with 5: no GPU" in done.stderr


def test_a_machine_without_the_program_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = mps(tmp_path, "calendar")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no nvidia-cuda-mps-control here" in done.stderr
