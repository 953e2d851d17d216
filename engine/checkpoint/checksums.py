"""SHA-256 checksums of a checkpoint's files: finds the expected ones and verifies files against them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from engine.errors import CheckpointError
from engine.system.regular_file import read_regular

SUMS_FILE = "SHA256SUMS"
"""The checksum file in the checkpoint's folder, in the format of ``sha256sum``. Names are relative to the folder."""

MAX_TEXT_BYTES = 64 * 1024 * 1024
"""Maximum size of a configuration or tokenizer file. The published vocabulary has 2.8 MB."""

_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](?:\./)?(.+)")
_BLOB = re.compile(r"[0-9a-f]{64}")


class Checksums:
    """The SHA-256 digests that a checkpoint's files must have.

    The expected digest of a file is the one in SHA256SUMS. If SHA256SUMS does not list the file, and the file is a link
    into a Hugging Face cache, the name of the linked blob is the digest. Any other file is not verified.
    """

    def __init__(self, folder: Path, listed: Mapping[str, str], *, enabled: bool = True) -> None:
        self._folder, self._listed, self._enabled = folder, listed, enabled

    @staticmethod
    def load(folder: Path, *, enabled: bool = True) -> Checksums:
        """Read the SHA256SUMS of ``folder``, if it has one. Raises CheckpointError if it is unreadable or malformed."""
        file = folder / SUMS_FILE
        if not enabled or not os.path.lexists(file):
            return Checksums(folder, {}, enabled=enabled)
        try:
            lines = _read(file).decode().splitlines()
        except UnicodeDecodeError:
            raise CheckpointError(f"{file} must be UTF-8 text") from None
        listed: dict[str, str] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            match = _LINE.fullmatch(line)
            if match is None:
                raise CheckpointError(
                    f"{file}, line {number}: must be a SHA-256, two spaces and a name, found {line!r:.80}"
                )
            digest, name = match[1].lower(), match[2]
            if listed.setdefault(name, digest) != digest:
                raise CheckpointError(
                    f"{file}, line {number}: {name} is already listed with another SHA-256: remove one of the lines"
                )
        return Checksums(folder, listed)

    def unlisted(self, names: tuple[str, ...]) -> list[str]:
        """Return the existing files of ``names`` that SHA256SUMS does not list; none if there is no SHA256SUMS."""
        return [name for name in names if self._listed and name not in self._listed and (self._folder / name).exists()]

    def lists(self, file: Path) -> bool:
        """Return whether SHA256SUMS lists ``file``."""
        return self._name(file) in self._listed

    def expected(self, file: Path) -> str | None:
        """Return the digest that ``file`` must have, in lower-case hexadecimal, or None if it is not verified."""
        if not self._enabled:
            return None
        return self._listed.get(self._name(file)) or _blob_digest(file)

    def check(self, file: Path, found: str) -> None:
        """Raise CheckpointError if ``found``, the digest of ``file``, differs from the expected one."""
        expected = self.expected(file)
        if expected is not None and found != expected:
            source = SUMS_FILE if self.lists(file) else "its name in the Hugging Face cache"
            raise CheckpointError(
                f"{file} is damaged: its SHA-256 must be {expected} as in {source}, found {found}: copy or download it "
                "again"
            )

    def read(self, file: Path) -> bytes:
        """Return the verified content of a file of at most ``MAX_TEXT_BYTES``. Raises CheckpointError with its path."""
        data = _read(file)
        if self.expected(file) is not None:
            self.check(file, hashlib.sha256(data).hexdigest())
        return data

    def _name(self, file: Path) -> str:
        return file.relative_to(self._folder).as_posix() if file.is_relative_to(self._folder) else ""


def unverified(folder: Path) -> Checksums:
    """Return Checksums that accept every file."""
    return Checksums(folder, {}, enabled=False)


def _blob_digest(file: Path) -> str | None:
    """Return the digest of a link to ``blobs/<sha256>`` in the Hugging Face cache, or None.

    The cache names large files after their SHA-256, and small files after their Git hash.
    """
    if not file.is_symlink():
        return None
    target = file.readlink()
    return target.name if target.parent.name == "blobs" and _BLOB.fullmatch(target.name) else None


def _read(file: Path) -> bytes:
    try:
        return read_regular(file, MAX_TEXT_BYTES)
    except FileNotFoundError:
        raise CheckpointError(f"{file} is missing") from None
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read: {error.strerror}") from error
