"""What the log says about modules that Python compiles at every start."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import logging
import large
from engine.system.bytecode import warn_without_bytecode

logging.basicConfig(format="%(message)s")
warn_without_bytecode(large)
"""


@pytest.fixture
def start(tmp_path):
    """Return a function that imports a package in a new process, and returns its log."""
    (tmp_path / "large").mkdir()
    (tmp_path / "large" / "__init__.py").write_text("")

    def run(**environment):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        path = os.pathsep.join([str(tmp_path), *sys.path])
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**kept, "PYTHONPATH": path, **environment},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stderr

    return run


def test_nothing_is_said_when_the_bytecode_is_kept(start):
    assert start() == ""


def test_the_log_says_which_variable_keeps_python_from_writing_bytecode(start):
    assert "takes seconds: unset PYTHONDONTWRITEBYTECODE" in start(PYTHONDONTWRITEBYTECODE="1")


def test_the_log_says_where_bytecode_cannot_be_written(start):
    log = start(PYTHONPYCACHEPREFIX="/proc/none")
    assert "/proc/none" in log and "is not writable; set PYTHONPYCACHEPREFIX" in log


def test_bytecode_that_another_start_has_kept_is_enough(start):
    start()
    assert start(PYTHONDONTWRITEBYTECODE="1") == ""
