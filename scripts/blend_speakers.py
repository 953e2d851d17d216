"""Blends stored voices without a server: ``python -m scripts.blend_speakers a.safetensors:0.7 b.safetensors:0.3``.

Uses the same interpolation as ``POST /v1/audio/voices/blend``. The result is a stored voice with the name of its file,
which can be copied to a server's voice folder.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from server.voices.embeddings import BlendError, blend, parse_weighted
from server.voices.names import is_voice_id
from server.voices.store import UNFINISHED
from server.voices.stored_voice import SUFFIX, StoredVoice, VoiceFileError, read_voice


def main(arguments: Sequence[str] | None = None) -> int:
    """Blend the voices and return the exit status."""
    parser = argparse.ArgumentParser(description="Blend stored voices into a new one.")
    parser.add_argument("voices", nargs="+", metavar="FILE[:WEIGHT]", help="a stored voice and its weight, default 1")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, help="the file to write, NAME.safetensors; must not exist"
    )
    options = parser.parse_args(arguments)
    try:
        voice = blend_files([parse_weighted(text) for text in options.voices], options.output)
        _write(voice.to_bytes(), options.output)
    except OSError as error:
        print(f"blend_speakers: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"blend_speakers: {error}", file=sys.stderr)
        return 1
    return 0


def blend_files(shares: Sequence[tuple[str, float]], output: Path) -> StoredVoice:
    """Return the blend of the voices in the files, with the name of ``output``. Raises ValueError or OSError."""
    name = output.name.removesuffix(SUFFIX)
    if output.suffix != SUFFIX or not is_voice_id(name):
        raise ValueError(f"{output}: must be NAME{SUFFIX}, where NAME has 1 to 64 characters of a-z, 0-9, _ and -")
    voices = [_read(Path(path)) for path, _ in shares]
    widths = sorted({voice.width for voice in voices})
    if len(widths) > 1:
        raise ValueError(
            f"the voices are of different checkpoints: their embeddings have {' and '.join(map(str, widths))} values"
        )
    try:
        embedding = blend([voice.embedding for voice in voices], [weight for _, weight in shares])
    except BlendError as error:
        raise ValueError(str(error)) from None
    return StoredVoice(name, "blend", int(time.time()), voices[0].model, embedding)


def _read(path: Path) -> StoredVoice:
    try:
        return read_voice(path)
    except VoiceFileError as error:
        raise ValueError(f"{path}: {error}") from None


def _write(data: bytes, output: Path) -> None:
    """Create the file atomically, because a server may read its folder at any time. Raises OSError."""
    try:
        with tempfile.NamedTemporaryFile(prefix=".", suffix=UNFINISHED, dir=output.parent) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.link(file.name, output)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(output)) from None


if __name__ == "__main__":
    sys.exit(main())
