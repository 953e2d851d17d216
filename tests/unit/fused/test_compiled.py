"""A kernel that was compiled once is taken from the user's cache, and one that cannot be is an error that says why."""

import pytest

from engine.kernels import nvrtc


class Compiler:
    """In NVRTC's place."""

    version = "13.0"
    runs = 0

    def __call__(self, name, source, headers, options):
        Compiler.runs += 1
        return " ".join((name, source, *headers, *options)).encode()


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr(nvrtc, "_Compiler", Compiler)
    monkeypatch.setattr(Compiler, "runs", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "part.h").write_text("int part;")
    (folder / "kernel.cu").write_text("int kernel;")
    return folder / "kernel.cu"


def test_it_is_compiled_once(source, tmp_path):
    cubin = nvrtc.compile_cubin(source, ["-DA=1"])
    assert cubin == nvrtc.compile_cubin(source, ["-DA=1"]) == b"kernel.cu int kernel; part.h -DA=1"
    assert Compiler.runs == 1
    assert [path.suffix for path in (tmp_path / "cache" / "sonant" / "kernels").iterdir()] == [".cubin"]


def test_it_is_compiled_anew_when_anything_changes(source):
    nvrtc.compile_cubin(source, ["-DA=1"])
    nvrtc.compile_cubin(source, ["-DA=2"])
    (source.parent / "part.h").write_text("int other;")
    nvrtc.compile_cubin(source, ["-DA=1"])
    assert Compiler.runs == 3


def test_a_cache_that_cannot_be_written_is_no_error(source, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert nvrtc.compile_cubin(source, []) == b"kernel.cu int kernel; part.h"


def test_without_nvrtc_the_error_says_what_is_missing(source, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(nvrtc, "_candidates", lambda: iter(["/nowhere/libnvrtc.so"]))
    with pytest.raises(nvrtc.KernelError, match="libnvrtc"):
        nvrtc.compile_cubin(source, [])


def files(tmp_path):
    return list((tmp_path / "cache" / "sonant" / "kernels").iterdir())


@pytest.mark.parametrize("harm", [lambda kept: b"", lambda kept: kept[:-1], lambda kept: kept[:-1] + b"?"])
def test_a_damaged_one_is_compiled_anew_once(source, tmp_path, harm):
    cubin = nvrtc.compile_cubin(source, [])
    (file,) = files(tmp_path)
    file.write_bytes(harm(file.read_bytes()))
    assert nvrtc.compile_cubin(source, []) == nvrtc.compile_cubin(source, []) == cubin
    assert Compiler.runs == 2


def test_what_cannot_be_written_whole_leaves_no_file(source, tmp_path, monkeypatch):
    def full(self, target):
        raise OSError("no space left on device")

    monkeypatch.setattr(nvrtc.Path, "replace", full)
    assert nvrtc.compile_cubin(source, []) == b"kernel.cu int kernel; part.h"
    assert not files(tmp_path)


def test_without_a_home_it_is_compiled_at_every_start(source, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(nvrtc.Path, "home", homeless)
    assert nvrtc.compile_cubin(source, []) == nvrtc.compile_cubin(source, []) == b"kernel.cu int kernel; part.h"
    assert Compiler.runs == 2
