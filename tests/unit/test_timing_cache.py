"""Measured times are kept on disk, for this machine and this state of the engine."""

import logging
import subprocess
import sys

import pytest

from engine.device import timing_cache
from engine.device.timing_cache import forget, remembered


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The cache folder of a machine on which nothing else runs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(timing_cache, "_cpu_seconds_of_others", lambda: 0.0)
    monkeypatch.setattr(timing_cache, "_measured", {})
    return tmp_path / "sonant"


def restart() -> None:
    """Forget what only this process knows."""
    timing_cache._measured.clear()
    timing_cache._machine.cache_clear()


@pytest.fixture
def measured(cache):
    """A measurement, and the arguments that it was called with."""
    calls: list[int] = []

    @remembered
    def milliseconds(threads: int) -> float:
        calls.append(threads)
        return 10.0 / threads

    return milliseconds, calls


def test_each_time_is_measured_once(measured):
    milliseconds, calls = measured
    for _ in range(2):
        assert [milliseconds(threads) for threads in (1, 2, 1, 2)] == [10, 5, 10, 5]
        restart()
    assert calls == [1, 2]


def test_times_can_be_measured_again(measured):
    milliseconds, calls = measured
    milliseconds(1)
    forget()
    forget()
    milliseconds(1)
    assert calls == [1, 1]


def test_another_processor_measures_for_itself(measured, monkeypatch):
    milliseconds, calls = measured
    milliseconds(1)
    monkeypatch.setattr(timing_cache, "_processor", lambda: "another one")
    restart()
    milliseconds(1)
    restart()
    assert calls == [1, 1]


@pytest.mark.parametrize("content", [b"", b"[1, 2]", b'{"key": "value"}', b"\xff\xfe"])
def test_a_damaged_file_is_replaced(content, measured, cache):
    milliseconds, calls = measured
    milliseconds(1)
    (file,) = cache.iterdir()
    file.write_bytes(content)
    for _ in range(2):
        restart()
        assert milliseconds(1) == 10
    assert calls == [1, 1]


def test_a_cache_that_cannot_be_written_is_no_error(measured, tmp_path, monkeypatch, caplog):
    milliseconds, _ = measured
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with caplog.at_level(logging.WARNING):
        assert milliseconds(1) == 10
    assert "every start measures them again" in caplog.text


def test_without_a_home_folder_every_start_measures(measured, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    milliseconds, calls = measured
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("engine.system.cache_folder.Path.home", homeless)
    forget()
    for _ in range(2):
        restart()
        assert [milliseconds(1), milliseconds(1)] == [10, 10]
    assert calls == [1, 1]


def test_a_time_of_a_busy_machine_is_kept_for_this_start_only(measured, monkeypatch):
    milliseconds, calls = measured
    seconds = iter(range(100))
    monkeypatch.setattr(timing_cache, "_cpu_seconds_of_others", lambda: float(next(seconds)))
    for _ in range(2):
        assert [milliseconds(1), milliseconds(1)] == [10, 10]
        restart()
    assert calls == [1, 1]
    monkeypatch.setattr(timing_cache, "_cpu_seconds_of_others", lambda: 0.0)
    for _ in range(2):
        milliseconds(1)
        restart()
    assert calls == [1, 1, 1]


def test_the_cpu_time_of_other_processes_is_seen():
    before = timing_cache._cpu_seconds_of_others()
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"], check=True, timeout=60)
    assert timing_cache._cpu_seconds_of_others() - before > 0.2


def test_without_proc_every_time_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("_CPU_INFO", "_CPU_TIMES"):
        monkeypatch.setattr(timing_cache, name, tmp_path / "missing")
    monkeypatch.setattr(timing_cache, "_measured", {})
    restart()
    measured = iter([10.0, 20.0])
    milliseconds = remembered(lambda: next(measured))
    for _ in range(2):
        assert milliseconds() == 10
        restart()
