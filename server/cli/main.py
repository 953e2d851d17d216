"""The ``sonant`` command and its subcommands."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from server.version import version

COMMANDS = ("serve", "reload", "say", "normalize", "bench", "doctor", "pack", "voices", "keys")
"""Each is a module of this package. It has a function of the same name, or ``app`` with commands of its own."""


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"sonant {version()}")
        raise typer.Exit


def _sonant(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A speech server for Qwen3-TTS."""


def create_app(commands: Sequence[str] = COMMANDS) -> typer.Typer:
    """Return the ``sonant`` command with some of its subcommands."""
    app = typer.Typer(name="sonant", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
    app.callback()(_sonant)
    for name in commands:
        module = import_module(f"server.cli.{name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(getattr(module, name))
    return app


def main() -> None:
    """Run the ``sonant`` console script.

    Imports only the module of the command to run, if the first argument names it. Importing all of them takes 1 s of
    CPU time.
    """
    named = [argument for argument in sys.argv[1:2] if argument in COMMANDS]
    gc.disable()  # imports allocate objects that stay: the collections are a tenth of their time
    app = create_app(named or COMMANDS)
    gc.enable()
    app()


if __name__ == "__main__":
    main()
