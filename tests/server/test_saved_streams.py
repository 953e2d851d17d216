"""Which programs read a file that was saved from a stream, whose header does not have its length.

``docs/guides/compatibility.md`` has the table. Programs that are not installed are skipped.
"""

from __future__ import annotations

import io
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile as sf

from tests.server.test_formats import encode, voice

RAW = ["-e", "signed", "-b", "16", "-t", "raw", "-"]
GSTREAMER = "filesrc location={} ! decodebin ! audioconvert ! audio/x-raw,format=S16LE ! fdsink"
COMMANDS: dict[str, Callable[[str], list[str]]] = {
    "ffmpeg": lambda path: ["ffmpeg", "-v", "error", "-i", path, "-f", "s16le", "-"],
    "sox": lambda path: ["sox", path, *RAW],
    "gst-launch-1.0": lambda path: ["gst-launch-1.0", "-q", *GSTREAMER.format(path).split()],
    "flac": lambda path: [
        *("flac", "--decode", "--silent", "--stdout", "--force-raw-format", "--endian=little", "--sign=signed"),
        path,
    ],
}
STREAMED = [pytest.param(kind, id=f"saved {kind}") for kind in ("wav", "flac")]


@pytest.mark.parametrize("kind", STREAMED)
@pytest.mark.parametrize("program", COMMANDS)
def test_a_program_reads_a_saved_stream_to_its_end(program: str, kind: str, tmp_path: Path) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    if program == "flac" and kind == "wav":
        pytest.skip("flac reads FLAC only")
    samples, path = voice(1), tmp_path / f"saved.{kind}"
    path.write_bytes(encode(kind, samples, streaming=True))
    done = subprocess.run(COMMANDS[program](str(path)), capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == samples.tobytes()


@pytest.mark.parametrize("kind", STREAMED)
def test_pyav_reads_a_saved_stream_to_its_end(kind: str) -> None:
    samples = voice(1)
    with av.open(io.BytesIO(encode(kind, samples, streaming=True))) as file:
        decoded = np.concatenate([frame.to_ndarray()[0] for frame in file.decode(audio=0)])
    assert decoded.tobytes() == samples.tobytes()


def test_soundfile_needs_the_length_of_a_flac_file(tmp_path: Path) -> None:
    """The documented exception: when this fails, libsndfile has learned to read streams, and the table is outdated."""
    path = tmp_path / "saved.flac"
    path.write_bytes(encode("flac", voice(1), streaming=True))
    with pytest.raises((ValueError, sf.LibsndfileError)):
        sf.read(path)
    path.write_bytes(encode("flac", voice(1), streaming=False))
    np.testing.assert_array_equal(sf.read(path, dtype="int16")[0], voice(1))
