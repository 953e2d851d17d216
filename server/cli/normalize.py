"""The ``sonant normalize`` command: prints a text as the text front end reads it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from server.cli.console import note
from server.text.frontend import STEPS, Spoken, spoken
from server.text.language import CODES
from server.text.scripts import unreadable_script


def normalize(
    text: Annotated[
        str, typer.Argument(help="What is typed; - reads standard input. Put -- before a text that begins with a dash.")
    ],
    language: Annotated[str, typer.Option(help="The language of the text.")] = "english",
    steps: Annotated[str, typer.Option(help="Steps to run, separated by commas.")] = ",".join(STEPS),
    pronunciation: Annotated[
        list[str] | None, typer.Option(metavar="WORD=RESPELLING", help="A word to say in another way; repeatable.")
    ] = None,
    name_emoji: Annotated[bool, typer.Option("--name-emoji", help="Name emoji instead of dropping them.")] = False,
) -> None:
    """Print TEXT as the text front end reads it: numbers, abbreviations and symbols as words, without markup.

    Requests run the steps that the checkpoint was trained with, or those of their field ``normalize``.
    """
    language = language.strip().lower()
    language = {code: name for name, code in CODES.items()}.get(language, language)
    if language not in CODES:
        raise typer.BadParameter(f"must be one of {', '.join(CODES)}, got {language}", param_hint="'--language'")
    typed = sys.stdin.read() if text == "-" else text
    chosen = [step for step in (each.strip() for each in steps.split(",")) if step]
    try:
        result = spoken(typed, language, chosen, parse_pronunciations(pronunciation or []), name_emoji=name_emoji)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--steps'") from None
    typer.echo(result.text)
    _report(result, typed, language)


def parse_pronunciations(entries: list[str]) -> dict[str, str]:
    """Return word -> respelling from options such as SQL=sequel. Raises typer.BadParameter."""
    pairs = [entry.partition("=") for entry in entries]
    for (word, mark, _), entry in zip(pairs, entries, strict=True):
        if not mark or not word.strip():
            raise typer.BadParameter(f"must be WORD=RESPELLING, got {entry}", param_hint="'--pronunciation'")
    return {word.strip(): respelling.strip() for word, _, respelling in pairs}


def _report(result: Spoken, typed: str, language: str) -> None:
    """Report on standard error what the text itself does not show."""
    for pause in result.pauses:
        note(f"pause of {pause.seconds:g} s before character {pause.position}")
    script = unreadable_script(typed, [language])
    if script:
        note(f"Warning: the text has {script} letters, which {language} is not written in.")
