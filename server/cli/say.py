"""The ``sonant say`` command: synthesizes one utterance into a file, without a server."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from engine.protocol.request import SAMPLE_RATE, SAMPLES_PER_FRAME, EngineInfo
from server.api.requests import SamplingFields
from server.audio.encoders import FORMATS
from server.cli.console import check_writable, note, plain_errors
from server.cli.offline import Spoken, recording_url
from server.cli.offline import say as speak
from server.settings import load_settings
from server.startup import UNTRAINED


class Layout(StrEnum):
    """Position of the text in the prompt."""

    STREAMING = "streaming"
    FULL = "full"


_ENDINGS = {"ogg": "opus"}
"""File extensions that differ from the name of their format."""

Temperature = Annotated[float | None, typer.Option(help="0 draws greedily.")]
Number = Annotated[int | None, typer.Option()]
Fraction = Annotated[float | None, typer.Option()]


def say(
    context: typer.Context,
    text: Annotated[str, typer.Argument(help="What to say.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The file to write; its ending picks the format.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="A checkpoint folder, or a hub name.")] = None,
    config: Annotated[Path | None, typer.Option(help="A YAML file of settings.")] = None,
    voice: Annotated[str | None, typer.Option(help="A speaker of the checkpoint, or a stored voice.")] = None,
    language: Annotated[str | None, typer.Option(help="Found out when not given.")] = None,
    instructions: Annotated[str | None, typer.Option(help="How to speak, or the voice to design.")] = None,
    ref_audio: Annotated[Path | None, typer.Option(help="A recording of the voice to clone.")] = None,
    ref_text: Annotated[str | None, typer.Option(help="What is said in that recording.")] = None,
    x_vector_only: Annotated[
        bool, typer.Option("--x-vector-only", help="Clone from the speaker embedding alone.")
    ] = False,
    text_layout: Annotated[Layout | None, typer.Option(help="The task's own when not given.")] = None,
    split: Annotated[bool, typer.Option("--split", help="Long text: say it sentence by sentence.")] = False,
    speed: Annotated[float, typer.Option(help="0.25 to 4, at the same pitch.")] = 1.0,
    sample_rate: Annotated[int, typer.Option(help="8000 to 48000.")] = SAMPLE_RATE,
    seed: Annotated[int | None, typer.Option(help="The same seed says it the same way.")] = None,
    temperature: Temperature = None,
    top_k: Number = None,
    top_p: Fraction = None,
    repetition_penalty: Fraction = None,
    subtalker_temperature: Temperature = None,
    subtalker_top_k: Number = None,
    subtalker_top_p: Fraction = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="Take the likeliest code each time.")] = False,
    max_new_tokens: Annotated[int | None, typer.Option(help="N gives at most N-1 frames of 80 ms.")] = None,
    dump: Annotated[Path | None, typer.Option(help="An .npz file for codes and samples.")] = None,
) -> None:
    """Say TEXT into a file."""
    if output is None and dump is None:
        raise typer.BadParameter("name a file to write", param_hint="'-o'")
    kind = _format_of(output) if output is not None else "wav"
    with plain_errors("sonant say"):
        for path in (output, dump):
            if path is not None:
                check_writable(path)
        settings = load_settings(config, {"engine": {"model": model}} if model else None)
        fields = {
            "input": text,
            "response_format": kind,
            "speed": speed,
            "sample_rate": sample_rate,
            "voice": voice,
            "language": language,
            "instructions": instructions,
            "ref_audio": recording_url(ref_audio) if ref_audio else None,
            "ref_text": ref_text,
            "x_vector_only_mode": x_vector_only,
            "non_streaming_mode": text_layout and text_layout is Layout.FULL,
            "split": "sentence" if split else None,
            # the sampling options have the names of the request's fields
            **{name: value for name, value in context.params.items() if name in SamplingFields.model_fields},
        }
        with Progress() as progress:
            spoken = asyncio.run(
                speak(settings, fields, greedy=greedy, on_ready=progress.ready, on_frames=progress.frames)
            )
        _write(spoken, output, dump)


def _format_of(output: Path) -> str:
    """Return the format for the file extension; WAV without one, for example for a pipe."""
    ending = output.suffix.lower().removeprefix(".") or "wav"
    kind = _ENDINGS.get(ending, ending)
    if kind not in FORMATS:
        known = ", ".join(f".{name}" for name in (*FORMATS, *_ENDINGS))
        raise typer.BadParameter(f"'.{ending}' is no format; there are {known}", param_hint="'-o'")
    return kind


class Progress:
    """Shows the progress on a terminal; does nothing otherwise."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._status = console.status("loading the checkpoint") if console.is_terminal else None

    def __enter__(self) -> Progress:
        if self._status:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status:
            self._status.stop()

    def ready(self, info: EngineInfo) -> None:
        """Report that the checkpoint is loaded."""
        if not info.trained:
            note(f"Warning: {UNTRAINED}.")
        self._show("thinking")

    def frames(self, made: int) -> None:
        """Report that ``made`` frames have been synthesized so far."""
        self._show(f"{made * SAMPLES_PER_FRAME / SAMPLE_RATE:.1f} s of speech")

    def _show(self, text: str) -> None:
        if self._status:
            self._status.update(text)


def _write(spoken: Spoken, output: Path | None, dump: Path | None) -> None:
    if output is not None:
        spoken.write_audio(output)
    if dump is not None:
        spoken.write_dump(dump)
