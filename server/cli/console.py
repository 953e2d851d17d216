"""Console output of the commands. Every expected failure is reported as one line on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from engine.errors import EngineError
from server.api_error import ApiError
from server.http.uvicorn_hooks import UnsupportedUvicorn
from server.settings import SettingsError


def note(text: str) -> None:
    """Print a message for the user on standard error, separate from the command's output."""
    typer.echo(text, err=True)


def check_writable(path: Path) -> None:
    """Check, before any work is done, that ``path`` can be written. Raises OSError. Leaves no new file behind."""
    exists = path.exists()
    if exists and not path.is_file() and not path.is_dir():
        return  # do not open a pipe or a device twice
    path.open("ab").close()
    if not exists:
        path.unlink(missing_ok=True)  # another command may write there, too


@contextmanager
def plain_errors(command: str) -> Iterator[None]:
    """Turn expected failures into one line on standard error and exit code 1. Other exceptions, bugs, propagate."""
    try:
        yield
    except (SettingsError, UnsupportedUvicorn) as error:
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
