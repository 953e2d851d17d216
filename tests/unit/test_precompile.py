"""Compiling GPU kernels ahead, in a process of its own; see also tests/gpu/test_precompile.py."""

import subprocess
import sys
from pathlib import Path

import pytest

from engine import precompile
from engine.checkpoint.config import read_model
from engine.checkpoint.folder import open_checkpoint
from engine.config import EngineConfig
from engine.precompile import precompiling
from engine.talker.fused.compilations import talker_compilations
from tests.unit.published import model_config

MISSING = EngineConfig(model="/nowhere")


@pytest.fixture
def started(monkeypatch):
    """The processes that were started."""
    processes, popen = [], subprocess.Popen

    def start(*arguments, **options):
        processes.append(popen(*arguments, **options))
        return processes[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    return processes


@pytest.fixture
def endless(tmp_path, monkeypatch):
    """A compilation that never ends."""
    interpreter = tmp_path / "python"
    interpreter.write_text("#!/bin/sh\nexec sleep 1000\n")
    interpreter.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(interpreter))


def test_a_process_that_cannot_compile_does_not_stop_the_engine(started, capfd):
    with precompiling(MISSING, ahead=True):
        pass
    assert started[0].returncode == 1
    assert "not all kernels are compiled ahead: " in capfd.readouterr().err


def test_a_process_that_cannot_start_does_not_stop_the_engine(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    with precompiling(MISSING, ahead=True):
        pass


def test_the_process_ends_at_once_if_the_engine_fails_meanwhile(started, endless):
    with pytest.raises(ImportError), precompiling(MISSING, ahead=True):
        raise ImportError
    assert started[0].returncode < 0


def test_the_process_ends_when_it_takes_too_long(started, endless, monkeypatch):
    monkeypatch.setattr(precompile, "_WAIT_S", 0.01)
    with precompiling(MISSING, ahead=True):
        pass
    assert started[0].returncode < 0


def test_a_timeout_of_the_engine_itself_is_not_swallowed(started, endless):
    with pytest.raises(subprocess.TimeoutExpired), precompiling(MISSING, ahead=True):
        raise subprocess.TimeoutExpired("ldconfig", 1)
    assert started[0].returncode < 0


def test_several_processes_share_the_kernels_on_a_machine_with_many_cores(started, endless, monkeypatch):
    monkeypatch.setattr(precompile, "available_cores", lambda: 32)
    with pytest.raises(ImportError), precompiling(MISSING, ahead=True):
        raise ImportError
    assert [process.args[-2:] for process in started] == [[str(index), "4"] for index in range(4)]
    assert all(process.returncode < 0 for process in started)


@pytest.fixture
def compiled_here(monkeypatch):
    """The shares that this process compiled."""
    shares = []
    monkeypatch.setattr(precompile, "open_checkpoint", lambda name: None)
    monkeypatch.setattr(precompile, "compile_ahead", lambda *arguments: shares.append(arguments[3]))
    return shares


def test_without_a_cache_the_engine_compiles_the_kernels_itself(started, compiled_here, monkeypatch):
    monkeypatch.setattr(precompile, "cache_folder", lambda: None)
    with precompiling(MISSING, ahead=True):
        assert compiled_here == []
    assert started == []
    assert compiled_here == [(0, 1)]


def test_what_no_process_compiles_ahead_is_compiled_by_the_engine(started, compiled_here):
    with precompiling(MISSING, ahead=False):
        assert compiled_here == []
    assert started == []
    assert compiled_here == [(0, 1)]


def test_the_engine_compiles_the_kernels_of_processes_that_failed(started, compiled_here):
    with precompiling(MISSING, ahead=True):
        assert len(started) >= 1
    assert started[0].returncode == 1
    assert compiled_here == [(0, 1)]


def test_the_engine_compiles_the_kernels_of_processes_that_could_not_be_started(compiled_here, monkeypatch):
    monkeypatch.setattr(precompile, "available_cores", lambda: 32)
    popen, started = subprocess.Popen, []

    def start(command, **options):
        if started:
            raise OSError("no more processes")
        started.append(popen(["true"], **options))
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", start)
    with precompiling(MISSING, ahead=True):
        pass
    assert started[0].returncode == 0
    assert compiled_here == [(0, 1)]


def test_the_engine_does_not_compile_again_what_other_processes_compiled(started, compiled_here, monkeypatch, tmp_path):
    interpreter = tmp_path / "python"
    interpreter.write_text("#!/bin/sh\nexit 0\n")
    interpreter.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(interpreter))
    with precompiling(MISSING, ahead=True):
        pass
    assert started[0].returncode == 0
    assert compiled_here == []


@pytest.mark.parametrize("size", ["0b6", "1b7"])
def test_the_kernels_of_every_batch_of_the_published_talkers_are_compiled(size):
    talker = read_model(model_config(f"{size}-custom_voice"), Path("config.json")).talker
    sources = [each.func.__name__ for each in talker_compilations(talker, [1, 16, 64, 128, 256], layers=True)]
    assert sources == 4 * ["batched_cubin"] + 2 * ["layers_cubin"]
    assert len(talker_compilations(talker, [1, 16, 512], layers=False)) == 1


def test_no_kernels_are_compiled_for_a_talker_of_other_sizes(checkpoints):
    talker = open_checkpoint(str(checkpoints["pocket"])).model.talker
    assert talker_compilations(talker, [1, 16], layers=True) == []
