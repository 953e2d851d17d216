"""The ``sonant keys`` commands: edit the file of API keys."""

from __future__ import annotations

import os
import re
import secrets
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from server.cli.console import note, plain_errors
from server.file_lock import lock_file
from server.keys.key_file import NAME, ApiKey, parse_line, parse_lines, plain_key, read_lines
from server.settings import SettingsError

app = typer.Typer(no_args_is_help=True, help="Add, list and revoke API keys. A running server follows the key file.")

File = Annotated[Path, typer.Argument(help="The key file: the setting keys_file.")]
Name = Annotated[str, typer.Argument(help="Name of the key: 1 to 64 of A-Z, a-z, 0-9, ., _ and -.")]

_KEY_BYTES = 32
"""Random bytes of a new key."""
_MAX_LIMIT = 999_999_999
_LOCK_SECONDS = 30.0


@app.command()
def add(
    file: File,
    name: Name,
    max_requests: Annotated[
        int | None, typer.Option(min=1, max=_MAX_LIMIT, help="Maximum number of its requests at once.")
    ] = None,
    audio_seconds_per_day: Annotated[
        int | None, typer.Option(min=1, max=_MAX_LIMIT, help="Seconds of audio that it may request per day (UTC).")
    ] = None,
    existing: Annotated[
        bool, typer.Option("--existing", help="Read the key from standard input instead of generating one.")
    ] = False,
    replacing: Annotated[
        bool, typer.Option("--replace", help="Replace the key of that name. Its voices and limits stay.")
    ] = False,
) -> None:
    """Add a key and print it. The file stores only its hash, so it cannot be printed again."""
    with plain_errors("sonant keys add"):
        if not re.fullmatch(NAME, name):
            raise SettingsError(f"the name must match {NAME}, got '{name[:80]}'")
        secret = sys.stdin.readline().strip() if existing else f"sk-{secrets.token_urlsafe(_KEY_BYTES)}"
        try:
            key = plain_key(secret)
        except ValueError as error:
            raise SettingsError(str(error)) from None
        with _locked(file):
            lines = read_lines(file) if file.exists() else []
            known = {key.name: key for key in parse_lines(lines, file)}
            if name in known and not replacing:
                raise SettingsError(
                    f"{file} has a key '{name}' already: revoke it, replace it (--replace), or choose another name"
                )
            if name not in known and replacing:
                raise SettingsError(f"{file} has no key '{name}' to replace")
            old = known.get(name)
            kept = _without(lines, key=name, digest=key.digest)
            entry = replace(
                key,
                name=name,
                owner=key.owner if old is None else old.owner,
                max_requests=max_requests or (old.max_requests if old else None),
                audio_seconds_per_day=audio_seconds_per_day or (old.audio_seconds_per_day if old else None),
            )
            _write(file, [*kept, entry.line()])
    if not existing:
        typer.echo(secret)
    note(f"stored the hash of the key '{name}' in {file}; the key itself is not stored")


@app.command("list")
def list_keys(file: File) -> None:
    """List the keys. A key in plain text has no name."""
    with plain_errors("sonant keys list"):
        keys = parse_lines(read_lines(file), file)
    table = Table("name", "owner", "requests at once", "audio seconds per day", box=None, pad_edge=False)
    for key in keys:
        table.add_row(
            key.name or "(plain text)", key.owner, _limit(key.max_requests), _limit(key.audio_seconds_per_day)
        )
    Console().print(table)


@app.command()
def revoke(file: File, names: Annotated[list[str], typer.Argument(help="Names of keys.")]) -> None:
    """Remove keys. A running server refuses them within two seconds. Their voices stay on disk."""
    with plain_errors("sonant keys revoke"), _locked(file):
        lines = read_lines(file)
        known = {key.name for key in parse_lines(lines, file)}
        for name in names:
            if name not in known:
                listed = ", ".join(sorted(each for each in known if each)) or "none"
                raise SettingsError(f"{file} has no key '{name[:80]}'; keys with a name: {listed}")
            lines = _without(lines, key=name)
        _write(file, lines)
    for name in names:
        note(f"revoked the key '{name}'")


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Exclude other ``sonant keys`` commands from editing the file. Raises SettingsError after a timeout.

    Locks the folder: the file itself is replaced by each edit.
    """
    folder = file.resolve().parent
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            lock_file(descriptor, _LOCK_SECONDS)
        except TimeoutError as error:
            raise SettingsError(f"{folder} is locked: {error}; try again") from None
        yield
    finally:
        os.close(descriptor)


def _limit(value: int | None) -> str:
    return "" if value is None else str(value)


def _without(lines: Iterable[str], *, key: str, digest: bytes | None = None) -> list[str]:
    """Return the lines without those of the key of that name or digest. Comments stay."""
    return [line for line in lines if not _is_of(parse_line(line), key, digest)]


def _is_of(entry: ApiKey | None, name: str, digest: bytes | None) -> bool:
    return entry is not None and (entry.name == name or entry.digest == digest)


def _write(file: Path, lines: Iterable[str]) -> None:
    """Replace the content of the file atomically. A new file is readable by its owner only. Raises OSError."""
    target = file.resolve()
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as unfinished:
            unfinished.writelines(f"{line}\n" for line in lines)
            unfinished.flush()
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
