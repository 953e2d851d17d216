"""The built package is complete, and the build depends on nothing outside the tree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from hatchling.builders.sdist import SdistBuilder

from server.settings import load_settings
from tests.server.audio_decoding import decode_audio

ROOT = Path(__file__).parents[2]
BUILD_FILES = (
    ".ci/run",
    ".dockerignore",
    "Dockerfile",
    "Makefile",
    "compose.yaml",
    "pyproject.toml",
    "scripts/image_check.sh",
    "scripts/install_torch.py",
)
INDEX_LIMIT_BYTES = 100 * 10**6
"""PyPI's limit for one file."""
NEEDS_VLLM = {f"engine.talker.vllm.{name}" for name in ("core", "model", "state", "step_runner")}
"""Modules that need the vllm extra to be imported; tested in tests/vllm."""
NEEDS_TRITON = {
    "engine.kernels.codec_kernels",
    "engine.kernels.codec_triton",
    "engine.talker.fused.row_layers",
    "engine.talker.fused.triton",
    *(
        f"engine.talker.fused.launches.{name}"
        for name in ("attention", "first_codes", "paged_attention", "products", "rows", "sampling")
    ),
}
"""Modules that need torch for GPUs to be imported; tested in tests/vllm, too."""
NEEDS_RAY = "server.ray."
"""Package whose modules need the extra ``ray``; tested in tests/ray."""
IMPORT_ALL = """
import importlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
for name in sys.argv[2:]:
    module = importlib.import_module(name)
    assert pathlib.Path(module.__file__).is_relative_to(root), module.__file__
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the unpacked wheel of this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=110)
    (archive,) = folder.glob("*.whl")
    unpacked = folder / "unpacked"
    with zipfile.ZipFile(archive) as file:
        file.extractall(unpacked)
    return unpacked


def modules(root: Path) -> list[str]:
    found = [path.relative_to(root) for name in ("engine", "server") for path in (root / name).rglob("*.py")]
    return sorted(".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in found)


def test_the_wheel_contains_every_module(wheel: Path) -> None:
    assert modules(wheel) == modules(ROOT)


def test_the_wheel_contains_the_configurations_and_the_checkpoint(wheel: Path) -> None:
    data = wheel / "server" / "data"
    for folder in ("configs", "models/pocket"):
        expected = {path.relative_to(ROOT) for path in (ROOT / folder).rglob("*") if path.is_file()}
        assert {path.relative_to(data) for path in (data / folder).rglob("*") if path.is_file()} == expected


def test_the_wheel_fits_a_package_index(wheel: Path) -> None:
    (archive,) = wheel.parent.glob("*.whl")
    assert archive.stat().st_size < INDEX_LIMIT_BYTES


def test_the_installed_wheel_speaks_in_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SONANT_")}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "server.cli", "say", "Hello.", "-o", "hello.wav"],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(wheel)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    samples, rate = decode_audio((tmp_path / "hello.wav").read_bytes(), "wav")
    assert len(samples) > rate / 5
    assert np.abs(samples).max() > 0.1


def test_the_source_distribution_contains_the_repository() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("this folder is no git repository to compare with")
    files = {Path(name) for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
    packed = {Path(file.distribution_path) for file in SdistBuilder(str(ROOT)).recurse_included_files()}
    assert files - packed == set()


def test_the_wheel_contains_type_information(wheel: Path) -> None:
    assert all((wheel / package / "py.typed").is_file() for package in ("engine", "server"))


def test_the_wheel_contains_the_playground(wheel: Path) -> None:
    page = Path("server/playground")
    assert {path.name for path in (wheel / page).iterdir()} == {path.name for path in (ROOT / page).iterdir()}


@pytest.mark.parametrize("folder", [Path("engine/talker/fused/cuda"), Path("engine/kernels/cuda")])
def test_the_wheel_contains_the_sources_of_runtime_compiled_kernels(wheel: Path, folder: Path) -> None:
    assert {path.name for path in (wheel / folder).iterdir()} == {path.name for path in (ROOT / folder).iterdir()}


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for name in ("engine", "server") for path in (ROOT / name).rglob("*.py")}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_every_module_of_the_wheel_can_be_imported(wheel: Path) -> None:
    excluded = NEEDS_VLLM | NEEDS_TRITON
    names = [name for name in modules(wheel) if not name.endswith("__main__") and name not in excluded]
    names = [name for name in names if not name.startswith(NEEDS_RAY)]
    result = subprocess.run(
        [sys.executable, "-P", "-c", IMPORT_ALL, wheel, *names],
        cwd=wheel,
        env={**os.environ, "PYTHONPATH": str(wheel)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert result.returncode == 0, result.stderr


def test_the_console_script_exists(wheel: Path) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    for name, target in scripts.items():
        assert callable(EntryPoint(name, target, "console_scripts").load())


def test_the_image_copies_only_existing_files() -> None:
    instructions = (ROOT / "Dockerfile").read_text().replace("\\\n", "").splitlines()
    copies = [line.split()[1:-1] for line in instructions if line.startswith("COPY ")]
    sources = {source for copied in copies if not copied[0].startswith("--") for source in copied}
    assert sources
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert sources <= allowed
    assert [source for source in sources if not (ROOT / source).exists()] == []


@pytest.mark.parametrize("config", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_configuration_is_valid(config: Path) -> None:
    assert load_settings(config).all_models[0].name


@pytest.mark.parametrize("name", BUILD_FILES)
def test_build_files_name_no_host_and_nothing_outside_the_tree(name: str) -> None:
    text = (ROOT / name).read_text()
    hosts = set(re.findall(r"\w+://([\w.-]+)", text)) | set(re.findall(r"\b[\w-]+\.(?:com|org|io|net)\b", text))
    assert hosts <= {"127.0.0.1"}
    assert not re.search(r"(^|[\s\"'=])\.\./", text)
