"""``scripts/install_torch.py`` with a real pip, and indexes of small packages that have the names of the real ones."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UV = '#!/bin/sh\necho "$@" > "$UV_CALL"\nexit "$UV_STATUS"\n'


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment without torch."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def write_wheel(folder: Path, name: str, version: str, *requirements: str, program: str = "") -> None:
    info = f"{name}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    metadata += [f"Requires-Dist: {each}" for each in requirements]
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", "\n".join(metadata) + "\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        if program:
            script = zipfile.ZipInfo(f"{name}-{version}.data/scripts/{name}")
            script.external_attr = 0o100755 << 16
            wheel.writestr(script, program)
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def cpu_index(tmp_path: Path) -> Path:
    write_wheel(tmp_path, "torch", "2.13.0+cpu", "sympy")
    return tmp_path


@pytest.fixture
def cuda_index(tmp_path: Path) -> Path:
    write_wheel(tmp_path, "torch", "2.13.0", "sympy", 'nvidia-cudnn-cu13; platform_system == "Linux"')
    write_wheel(tmp_path, "uv", "1.0", program=UV)
    return tmp_path


def install(python: Path, index: Path, *options: str, uv_status: int = 0) -> tuple[str, str]:
    """Run the script. Return its output and the arguments of the call of uv."""
    call = index / "uv-call"
    done = subprocess.run(
        [python, ROOT / "scripts" / "install_torch.py", "--no-index", "--find-links", index, *options],
        env={**os.environ, "UV_CALL": str(call), "UV_STATUS": str(uv_status), "PIP_NO_INDEX": "1"}
        | {"PIP_FIND_LINKS": str(index)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout, call.read_text() if call.exists() else ""


def test_a_cpu_build_in_the_index_of_pip_is_left_to_pip(python: Path, cpu_index: Path) -> None:
    output, call = install(python, cpu_index, "--build", "cpu")
    assert "CPU build (about 0.3 GB" in output
    assert not call


def test_uv_installs_the_cpu_build_instead_of_a_cuda_build(python: Path, cuda_index: Path) -> None:
    output, call = install(python, cuda_index, "--build", "cpu")
    assert "CPU build with uv (about 0.3 GB" in output
    assert f"--python {python} --torch-backend cpu --no-deps torch>=" in call


def test_the_size_of_the_cuda_build_is_told_if_there_is_no_other(python: Path, cuda_index: Path) -> None:
    output, call = install(python, cuda_index, "--build", "cpu", uv_status=2)
    assert call
    assert "CUDA build instead" in output
    assert "2.8 GB" in output


def test_the_cuda_build_is_left_to_pip(python: Path, cuda_index: Path) -> None:
    output, call = install(python, cuda_index, "--build", "cuda")
    assert "2.8 GB" in output
    assert not call


def test_an_installed_torch_is_kept(cuda_index: Path) -> None:
    assert install(Path(sys.executable), cuda_index) == ("", "")
