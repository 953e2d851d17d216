"""How every command fails: one line on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from engine.errors import EngineError
from server.errors import ApiError
from server.settings import SettingsError


def note(text: str) -> None:
    """A line for the person at the terminal, beside the command's output."""
    typer.echo(text, err=True)


def check_writable(path: Path) -> None:
    """Find out before any work whether a file can be written there. Raises OSError; leaves nothing behind."""
    there = path.exists()
    if there and not path.is_file() and not path.is_dir():
        return  # a pipe or a device must not be opened twice
    path.open("ab").close()
    if not there:
        path.unlink(missing_ok=True)  # another command may write there, too


@contextmanager
def plain_errors(command: str) -> Iterator[None]:
    """Expected failures end the command with one line and exit code 1; anything else is a defect."""
    try:
        yield
    except SettingsError as error:
        message = str(error)
    except OSError as error:
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    except (ApiError, EngineError) as error:
        message = error.message
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    else:
        return
    note(f"{command}: {' '.join(message.split())}")
    raise typer.Exit(1)
