"""The ``sonant`` command and its subcommands."""

from __future__ import annotations

from typing import Annotated

import typer

from server.cli.bench import bench
from server.cli.doctor import doctor
from server.cli.keys import app as keys
from server.cli.normalize import normalize
from server.cli.pack import pack
from server.cli.reload import reload
from server.cli.say import say
from server.cli.serve import serve
from server.cli.voices import app as voices
from server.version import version


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


app = typer.Typer(
    name="sonant",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.callback()(_sonant)
app.command()(serve)
app.command()(reload)
app.command()(say)
app.command()(normalize)
app.command()(bench)
app.command()(doctor)
app.command()(pack)
app.add_typer(voices, name="voices")
app.add_typer(keys, name="keys")


def main() -> None:
    """Run the ``sonant`` console script."""
    app()


if __name__ == "__main__":
    main()
