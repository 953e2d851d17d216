"""``sonant``: the command line."""

from __future__ import annotations

import typer

from server.commands.doctor import doctor
from server.commands.say import say
from server.commands.serve import serve

app = typer.Typer(
    name="sonant",
    help="A speech server for Qwen3-TTS.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(serve)
app.command()(say)
app.command()(doctor)


def main() -> None:
    """The console script."""
    app()


if __name__ == "__main__":
    main()
