"""Compiled kernels are cached for the user; a kernel that cannot be compiled raises a clear error."""

from types import SimpleNamespace

import pytest

from engine.kernels import nvrtc


class Compiler:
    """Replaces NVRTC."""

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


def test_a_kernel_is_compiled_once(source, tmp_path):
    cubin = nvrtc.compile_cubin(source, ["-DA=1"])
    assert cubin == nvrtc.compile_cubin(source, ["-DA=1"]) == b"kernel.cu int kernel; part.h -DA=1"
    assert Compiler.runs == 1
    assert [path.suffix for path in (tmp_path / "cache" / "sonant" / "kernels").iterdir()] == [".cubin"]


def test_a_kernel_is_recompiled_if_anything_changes(source):
    nvrtc.compile_cubin(source, ["-DA=1"])
    nvrtc.compile_cubin(source, ["-DA=2"])
    (source.parent / "part.h").write_text("int other;")
    nvrtc.compile_cubin(source, ["-DA=1"])
    assert Compiler.runs == 3


def test_an_unwritable_cache_is_no_error(source, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert nvrtc.compile_cubin(source, []) == b"kernel.cu int kernel; part.h"


def test_a_missing_nvrtc_is_named(source, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(nvrtc, "_candidates", lambda: iter(["/nowhere/libnvrtc.so"]))
    with pytest.raises(nvrtc.KernelError, match="libnvrtc"):
        nvrtc.compile_cubin(source, [])


@pytest.mark.parametrize(("cuda", "first"), [("13.0", "package"), ("12.8", "package-cu12"), (None, "package")])
def test_nvrtc_of_the_version_of_torch_is_preferred(monkeypatch, tmp_path, cuda, first):
    """Both packages are installed. A driver may not load what a newer NVRTC compiled."""

    def files(package):
        name = package.replace("nvidia-cuda-nvrtc", "package")
        return [SimpleNamespace(name="libnvrtc.so.1", locate=lambda: tmp_path / name)]

    monkeypatch.setattr("torch.version.cuda", cuda)
    monkeypatch.setattr("importlib.metadata.files", files)
    assert next(nvrtc._candidates()) == str(tmp_path / first)


def cache_files(tmp_path):
    return list((tmp_path / "cache" / "sonant" / "kernels").iterdir())


@pytest.mark.parametrize("corrupt", [lambda data: b"", lambda data: data[:-1], lambda data: data[:-1] + b"?"])
def test_a_corrupt_cache_entry_is_recompiled_once(source, tmp_path, corrupt):
    cubin = nvrtc.compile_cubin(source, [])
    (file,) = cache_files(tmp_path)
    file.write_bytes(corrupt(file.read_bytes()))
    assert nvrtc.compile_cubin(source, []) == nvrtc.compile_cubin(source, []) == cubin
    assert Compiler.runs == 2


def test_a_failed_write_leaves_no_cache_file(source, tmp_path, monkeypatch):
    def full(self, target):
        raise OSError("no space left on device")

    monkeypatch.setattr(nvrtc.Path, "replace", full)
    assert nvrtc.compile_cubin(source, []) == b"kernel.cu int kernel; part.h"
    assert not cache_files(tmp_path)


def test_without_a_home_directory_it_is_compiled_on_every_start(source, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(nvrtc.Path, "home", homeless)
    assert nvrtc.compile_cubin(source, []) == nvrtc.compile_cubin(source, []) == b"kernel.cu int kernel; part.h"
    assert Compiler.runs == 2
