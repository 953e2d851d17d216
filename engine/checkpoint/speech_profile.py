"""Reads sonant.json of a checkpoint: what text and what recordings it was trained for."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from pydantic import TypeAdapter

from engine.checkpoint.checksums import Checksums
from engine.checkpoint.json_file import parse, read_json
from engine.errors import CheckpointError
from engine.protocol.speech_profile import SpeechProfile

PROFILE_FILE = "sonant.json"
"""Only Sonant reads this file, so the published checkpoints have none."""

_PROFILE = TypeAdapter(SpeechProfile)
_KEYS = [field.name for field in fields(SpeechProfile)]


def read_speech_profile(folder: Path, checksums: Checksums) -> SpeechProfile:
    """Read sonant.json, if there is one. A key that it lacks has the default.

    Raises CheckpointError with the file and the key for an unknown key, a wrong type or a value out of range.
    """
    file = folder / PROFILE_FILE
    if not file.exists() and not file.is_symlink() and not checksums.lists(file):
        return SpeechProfile()
    values = read_json(file, checksums)
    if unknown := sorted(values.keys() - set(_KEYS)):
        raise CheckpointError(f"{file}: the key {unknown[0]} is unknown, expected some of {', '.join(_KEYS)}")
    return parse(_PROFILE, values, file)
