"""Measured times are kept on disk, for this machine and this state of the engine."""

import itertools
import logging
import os
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError

import pytest

from engine.device import timing, timing_cache
from engine.device.timing import Timing, fastest_call
from engine.device.timing_cache import cached_on_disk, cached_times_file, ignore_cached_times

X86 = """\
processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Processor
stepping\t: 8
cpu MHz\t\t: {mhz}
flags\t\t: fpu {flags}

processor\t: 1
model name\t: {second}
"""
VERSION = timing_cache.version
ARM = "processor\t: 0\nBogoMIPS\t: {mhz}\nFeatures\t: {flags}\nCPU part\t: 0xd40\n\nprocessor\t: 1\n{second}\n"


def restart() -> None:
    """Forget what only this process knows."""
    timing_cache._measured.clear()
    timing_cache._digest.cache_clear()
    timing_cache._log_once.cache_clear()


class Measurement:
    """A function that measures 10 ms with one thread, and the arguments that it was called with."""

    def __init__(self):
        self.calls: list[int] = []
        self.disturbed = False
        self.milliseconds = cached_on_disk(self._measure)

    def _measure(self, threads: int) -> Timing:
        self.calls.append(threads)
        return Timing(10.0 / threads, self.disturbed)


@pytest.fixture
def measured():
    return Measurement()


@pytest.fixture
def read_only(times_folder):
    """A file in the place of the folder, because tests may run as root."""
    times_folder.write_text("")


def test_each_time_is_measured_once(measured):
    for _ in range(2):
        assert [measured.milliseconds(threads) for threads in (1, 2, 1, 2)] == [10, 5, 10, 5]
        restart()
    assert measured.calls == [1, 2]


def test_ignored_times_are_overwritten(measured, times_folder, monkeypatch):
    measured.milliseconds(1)
    measured.milliseconds(2)
    (file,) = times_folder.iterdir()
    kept = file.read_text()
    file.write_text(kept.replace("10.0", "20.0"))
    restart()
    ignore_cached_times()
    assert [measured.milliseconds(1), measured.milliseconds(1)] == [10, 10]
    assert measured.calls == [1, 2, 1]
    monkeypatch.setattr(timing_cache, "_ignored", False)
    restart()
    assert [measured.milliseconds(1), measured.milliseconds(2)] == [10, 5]
    assert measured.calls == [1, 2, 1]


def test_the_file_with_the_times_can_be_named(measured, times_folder):
    assert cached_times_file() is None
    measured.milliseconds(1)
    assert [cached_times_file()] == list(times_folder.iterdir())


@pytest.mark.parametrize("template", [X86, ARM])
def test_another_type_of_cpu_measures_for_itself(template, measured, tmp_path, monkeypatch):
    def calls_with(**values):
        file.write_text(template.format(**{"mhz": "2000", "flags": "avx2", "second": "", **values}))
        restart()
        measured.milliseconds(1)
        return len(measured.calls)

    file = tmp_path / "cpuinfo"
    monkeypatch.setattr(timing_cache, "_CPU_INFO", file)
    assert calls_with() == 1
    assert calls_with(mhz="3000", second="another one") == 1
    assert calls_with(flags="avx2 avx512f") == 2


@pytest.mark.parametrize("name", ["NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"])
def test_times_depend_on_the_cpu_that_numba_compiles_for(name, measured, monkeypatch):
    measured.milliseconds(1)
    monkeypatch.setenv(name, "generic")
    restart()
    measured.milliseconds(1)
    assert measured.calls == [1, 1]


@pytest.mark.parametrize("package", ["numba", "llvmlite"])
def test_times_depend_on_the_versions_of_compilers(package, measured, monkeypatch):
    measured.milliseconds(1)
    monkeypatch.setattr(timing_cache, "version", lambda name: "new" if name == package else VERSION(name))
    restart()
    measured.milliseconds(1)
    assert measured.calls == [1, 1]


def test_sources_that_cannot_be_read_are_no_error(measured, tmp_path, times_folder, monkeypatch, caplog):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / ".#plan.py").symlink_to("user@host.123")
    monkeypatch.setattr(timing_cache, "_SOURCE", tmp_path / "source")
    restart()
    assert [measured.milliseconds(threads) for threads in (1, 2)] == [10, 5]
    assert cached_times_file() is None
    assert not times_folder.exists()
    assert caplog.text.count("every start measures them again") == 1


def test_unknown_versions_are_no_error(measured, times_folder, monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(timing_cache, "version", missing)
    restart()
    assert measured.milliseconds(1) == 10
    assert not times_folder.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[1, 2]",
        b'{"key": "value"}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"key": NaN}',
        b'{"key": Infinity}',
        b'{"key": 0.0}',
        b'{"key": -1.0}',
        b'{"key": true}',
    ],
)
def test_a_damaged_file_is_replaced(content, measured, times_folder):
    measured.milliseconds(1)
    (file,) = times_folder.iterdir()
    file.write_bytes(content)
    for _ in range(2):
        restart()
        assert measured.milliseconds(1) == 10
    assert measured.calls == [1, 1]


def test_a_folder_that_cannot_be_written_is_reported_once(measured, read_only, times_folder, caplog):
    assert [measured.milliseconds(threads) for threads in (1, 2)] == [10, 5]
    (line,) = [record.getMessage() for record in caplog.records]
    assert f"every start measures them again: {times_folder} cannot be written" in line


def test_without_a_home_folder_every_start_measures(measured, monkeypatch):
    monkeypatch.setattr(timing_cache, "cache_folder", lambda: None)
    for _ in range(2):
        restart()
        assert [measured.milliseconds(1), measured.milliseconds(1)] == [10, 10]
    assert measured.calls == [1, 1]
    assert cached_times_file() is None


def test_a_disturbed_time_is_kept_for_this_process_only(measured, caplog):
    measured.disturbed = True
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            assert [measured.milliseconds(threads) for threads in (1, 2, 1)] == [10, 5, 10]
            restart()
    assert measured.calls == [1, 2, 1, 2]
    assert caplog.text.count("so the next start measures again") == 2
    measured.disturbed = False
    for _ in range(2):
        measured.milliseconds(1)
        restart()
    assert measured.calls == [1, 2, 1, 2, 1]


@pytest.fixture
def cpu_times(tmp_path, monkeypatch):
    """Replaces /proc/stat. Call it with the CPU seconds of each CPU."""

    def write(*seconds):
        ticks = [round(each * os.sysconf("SC_CLK_TCK")) for each in seconds]
        lines = [f"cpu{index} {each} 0 0 900 900 0 0 0 0 0\n" for index, each in enumerate(ticks)]
        file.write_text("".join([f"cpu  {sum(ticks)} 0 0 900 900 0 0 0 0 0\n", *lines, "intr 5 6\nctxt 7\n"]))

    file = tmp_path / "stat"
    monkeypatch.setattr(timing, "_CPU_TIMES", file)
    monkeypatch.setattr(timing.time, "process_time", lambda: 0.0)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 2}, raising=False)
    write(5, 5, 5)
    return write


@pytest.mark.parametrize(
    ("after", "disturbed"), [((5, 5, 5), False), ((5, 9, 5), False), ((6, 5, 5), True), ((5, 5, 6), True)]
)
def test_other_processes_disturb_on_the_cpus_of_this_process(after, disturbed, cpu_times):
    result = timing.watch_other_processes()
    cpu_times(*after)
    assert result() is disturbed


def test_only_the_timed_calls_can_be_disturbed(cpu_times):
    seconds = itertools.count(6)
    calls = iter([lambda: cpu_times(next(seconds), 5, 5)])  # the first call warms up
    result = fastest_call(lambda: next(calls, lambda: time.sleep(0.01))(), 0.02, 2)
    assert result.time > 0
    assert not result.disturbed
    assert fastest_call(lambda: cpu_times(next(seconds), 5, 5), 0.001, 2).disturbed


@pytest.mark.skipif(not timing._CPU_TIMES.exists(), reason="needs /proc/stat")
def test_the_cpu_time_of_other_processes_is_seen():
    before = timing._cpu_seconds_of_other_processes()
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"], check=True, timeout=60)
    assert timing._cpu_seconds_of_other_processes() - before > 0.2


def test_without_proc_nothing_is_disturbed(measured, tmp_path, monkeypatch):
    monkeypatch.setattr(timing, "_CPU_TIMES", tmp_path / "missing")
    monkeypatch.setattr(timing_cache, "_CPU_INFO", tmp_path / "missing")
    assert not fastest_call(lambda: None, 0.001, 1).disturbed
    for _ in range(2):
        restart()
        assert measured.milliseconds(1) == 10
    assert measured.calls == [1]
