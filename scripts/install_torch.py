"""Installs the build of torch that fits this machine, if a build must be chosen at all.

``make`` and the Dockerfile run it with the Python of the environment that gets torch, before ``pip install``. It uses
the standard library only. The default package index has a CUDA build of torch for Linux. Without an NVIDIA GPU, the
CPU build does the same work in a tenth of the space, but comes from an index of PyTorch's own. uv knows that index.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
CPU_SIZE = "about 0.3 GB to download, 1.2 GB on disk; a minute or two at 100 Mbit/s"
CUDA_SIZE = "about 2.8 GB to download, 4.9 GB on disk; five to ten minutes at 100 Mbit/s"
"""Sizes of the whole environment."""
_CUDA_PACKAGES = ("nvidia-", "cuda-", "triton")
"""Beginnings of the names of packages that only a CUDA build of torch requires."""
_GPU_TIMEOUT_S = 30.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Install torch if pip would install a build that does not fit; otherwise leave it to pip."""
    parser = argparse.ArgumentParser(description="Install the build of torch that fits this machine.")
    parser.add_argument(
        "--build", choices=["auto", "cpu", "cuda"], default="auto", help="auto: cuda with an NVIDIA GPU"
    )
    parser.add_argument("--requirement", help="instead of the one in pyproject.toml, for example 'torch>=2.11'")
    options, pip_arguments = parser.parse_known_args(arguments)
    if _is_installed():
        return
    build = options.build
    if build == "auto":
        build = "cuda" if has_gpu() else "cpu"
        print(
            f"torch: {'an' if build == 'cuda' else 'no'} NVIDIA GPU was found; TORCH=cpu or TORCH=cuda overrides this"
        )
    if build == "cuda":
        print(f"torch: installing the CUDA build ({CUDA_SIZE})", flush=True)
        return
    requirement = options.requirement or _requirement()
    if platform.system() == "Linux" and pip_installs_cuda(requirement, pip_arguments):
        if not install_cpu_build(requirement):
            print(
                "torch: the CPU build could not be installed (see above). pip installs the CUDA build instead, which "
                f"runs on a CPU, too ({CUDA_SIZE})",
                flush=True,
            )
    else:
        print(f"torch: pip's index has the CPU build ({CPU_SIZE})", flush=True)


def has_gpu() -> bool:
    """Return whether this machine has an NVIDIA GPU and its driver."""
    if any(Path("/proc/driver/nvidia/gpus").glob("*")):
        return True
    program = shutil.which("nvidia-smi")
    if program is None:
        return False
    try:
        listed = subprocess.run([program, "-L"], capture_output=True, timeout=_GPU_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return listed.returncode == 0 and b"GPU" in listed.stdout


def pip_installs_cuda(requirement: str, pip_arguments: Sequence[str]) -> bool:
    """Return whether pip, with its configuration, would install a CUDA build. False if pip finds no torch at all."""
    options = ["--dry-run", "--ignore-installed", "--no-deps", "--quiet", "--report", "-", *pip_arguments]
    found = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, requirement], stdout=subprocess.PIPE, check=False
    )
    if found.returncode != 0:
        return False  # the pip install that follows reports the reason
    metadata = json.loads(found.stdout)["install"][0]["metadata"]
    return any(needed.startswith(_CUDA_PACKAGES) for needed in metadata.get("requires_dist", []))


def install_cpu_build(requirement: str) -> bool:
    """Install the CPU build with uv, which is itself only installed for that. Return whether it worked."""
    print(f"torch: installing the CPU build with uv ({CPU_SIZE})", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, "uv"]
        if subprocess.run(pip, check=False).returncode != 0:
            return False
        uv = [f"{folder}/bin/uv", "pip", "install", "--python", sys.executable, "--torch-backend", "cpu", "--no-deps"]
        try:
            return subprocess.run([*uv, requirement], check=False).returncode == 0
        except OSError as error:  # programs in the folder for temporary files may be forbidden
            print(f"torch: {error.filename}: {error.strerror}", flush=True)
            return False


def _is_installed() -> bool:
    try:
        importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _requirement() -> str:
    """Return the project's requirement of torch."""
    requirements: list[str] = tomllib.loads(PROJECT.read_text())["project"]["dependencies"]
    return next(each for each in requirements if each.startswith("torch"))


if __name__ == "__main__":
    main()
