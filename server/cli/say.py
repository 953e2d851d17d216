"""The ``sonant say`` command: synthesizes one utterance into a file, without a server."""

from __future__ import annotations

import asyncio
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from engine.protocol.request import SAMPLE_RATE, SAMPLES_PER_FRAME, EngineInfo
from server.audio.encoders import FORMATS
from server.cli.console import check_writable, note, plain_errors
from server.cli.dialogue import read_script
from server.cli.normalize import parse_pronunciations
from server.cli.offline import OfflineSpeech, recording_url, synthesize
from server.request_models.speech import SamplingFields
from server.settings import load_settings
from server.startup import UNTRAINED


class Splitting(StrEnum):
    """How long text is split."""

    AUTO = "auto"
    SENTENCE = "sentence"
    NONE = "none"


class Layout(StrEnum):
    """Position of the text in the prompt."""

    STREAMING = "streaming"
    FULL = "full"


_EXTENSIONS = {"ogg": "opus"}
"""File extensions that differ from the name of their format."""


def say(
    context: typer.Context,
    text: Annotated[str | None, typer.Argument(help="What to say; - reads standard input.", show_default=False)] = None,
    script: Annotated[
        Path | None, typer.Option(help="Text file of several speakers instead of TEXT: lines 'VOICE: what it says'.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Audio file to write. Its extension selects the format.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Checkpoint folder, or repository name on the Hugging Face hub.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="YAML file of settings, or name of an included one.")] = None,
    voice: Annotated[str | None, typer.Option(help="Speaker of the checkpoint, or stored voice.")] = None,
    language: Annotated[str | None, typer.Option(help="Language of the text. Default: detected from the text.")] = None,
    instructions: Annotated[str | None, typer.Option(help="Speaking style, or the voice to design.")] = None,
    ref_audio: Annotated[Path | None, typer.Option(help="Recording of the voice to clone.")] = None,
    ref_text: Annotated[str | None, typer.Option(help="Transcript of that recording.")] = None,
    x_vector_only: Annotated[
        bool, typer.Option("--x-vector-only", help="Clone with the speaker embedding only.")
    ] = False,
    text_layout: Annotated[
        Layout | None,
        typer.Option(help="Position of the text in the prompt. Default: depends on the checkpoint and the task."),
    ] = None,
    normalize: Annotated[
        bool | None,
        typer.Option(
            "--normalize/--no-normalize",
            help="Read numbers, symbols and abbreviations as words, or speak TEXT as it is. Default: as the checkpoint "
            "was trained.",
        ),
    ] = None,
    pronunciation: Annotated[
        list[str] | None, typer.Option(metavar="WORD=RESPELLING", help="A word to say in another way; repeatable.")
    ] = None,
    split: Annotated[
        Splitting, typer.Option(help="Long text: in pieces if it is too long, at every sentence, or never split.")
    ] = Splitting.AUTO,
    speed: Annotated[float, typer.Option(help="0.25 to 4; the pitch does not change.")] = 1.0,
    sample_rate: Annotated[int, typer.Option(help="Samples per second, 8000 to 48000.")] = SAMPLE_RATE,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same audio.")] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Sampling temperature of a frame's first code; 0 selects the most likely code.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Sample from this number of most likely codes.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Sample from the most likely codes of this total probability.")
    ] = None,
    repetition_penalty: Annotated[float | None, typer.Option(help="Above 1: codes repeat less.")] = None,
    subtalker_temperature: Annotated[
        float | None, typer.Option(help="The same as --temperature, for the other 15 codes.")
    ] = None,
    subtalker_top_k: Annotated[int | None, typer.Option(help="The same as --top-k, for the other 15 codes.")] = None,
    subtalker_top_p: Annotated[float | None, typer.Option(help="The same as --top-p, for the other 15 codes.")] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="Always select the most likely code.")] = False,
    max_new_tokens: Annotated[int | None, typer.Option(help="N limits the speech to N-1 frames of 80 ms.")] = None,
    dump: Annotated[Path | None, typer.Option(help=".npz file to write codes and samples to.")] = None,
) -> None:
    """Synthesize TEXT into a file, without a server."""
    if (text is None) == (script is None):
        raise typer.BadParameter("give either TEXT or a file with --script", param_hint="'TEXT'")
    if output is None and dump is None:
        raise typer.BadParameter("a file to write is required", param_hint="'-o'")
    response_format = _format_of(output) if output is not None else "wav"
    with plain_errors("sonant say"):
        for path in (output, dump):
            if path is not None:
                check_writable(path)
        settings = load_settings(config, {"engine": {"model": model}} if model else None)
        fields = {
            "input": (sys.stdin.read() if text == "-" else text) if script is None else read_script(script),
            "response_format": response_format,
            "speed": speed,
            "sample_rate": sample_rate,
            "voice": voice,
            "language": language,
            "instructions": instructions,
            "ref_audio": recording_url(ref_audio) if ref_audio else None,
            "ref_text": ref_text,
            "x_vector_only_mode": x_vector_only,
            "non_streaming_mode": text_layout and text_layout is Layout.FULL,
            "normalize": normalize,
            "pronunciations": parse_pronunciations(pronunciation or []) or None,
            "split": split.value,
            # the sampling options have the names of the request's fields
            **{name: value for name, value in context.params.items() if name in SamplingFields.model_fields},
        }
        with Progress() as progress:
            result = asyncio.run(
                synthesize(settings, fields, greedy=greedy, on_ready=progress.ready, on_frames=progress.frames)
            )
        _write(result, output, dump)


def _format_of(output: Path) -> str:
    """Return the format for the file extension; WAV without one, for example for a pipe."""
    extension = output.suffix.lower().removeprefix(".") or "wav"
    response_format = _EXTENSIONS.get(extension, extension)
    if response_format not in FORMATS:
        known = ", ".join(f".{name}" for name in (*FORMATS, *_EXTENSIONS))
        message = f"the file extension must be one of {known}, got '.{extension}'"
        raise typer.BadParameter(message, param_hint="'-o'")
    return response_format


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
        self._show("waiting for the first audio")

    def frames(self, count: int) -> None:
        """Report that ``count`` frames have been synthesized so far."""
        self._show(f"{count * SAMPLES_PER_FRAME / SAMPLE_RATE:.1f} s of speech")

    def _show(self, text: str) -> None:
        if self._status:
            self._status.update(text)


def _write(speech: OfflineSpeech, output: Path | None, dump: Path | None) -> None:
    if output is not None:
        speech.write_audio(output)
    if dump is not None:
        speech.write_dump(dump)
