"""The ``sonant bench`` command: measures the latency and the real-time performance of a running server."""

from __future__ import annotations

import asyncio
import json
import os
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from server.bench.client import Client
from server.bench.plot import check_plot, write_plot
from server.bench.report import Result, comparison, details, remarks, write_report
from server.bench.summary import measure
from server.bench.workload import (
    PLANS,
    SENTENCES,
    Load,
    Workload,
    audience,
    closed_load,
    open_load,
    planned,
    read_texts,
    reference,
)
from server.cli.console import check_writable, note, plain_errors

_WIDTH = 120
"""Width of tables that are not printed to a terminal."""


def bench(
    server: Annotated[
        str,
        typer.Option(
            "-s", "--server", envvar="SONANT_SERVER", help="A host, or the very address; SONANT_API_KEY is its key."
        ),
    ] = "http://127.0.0.1:8000",
    rate: Annotated[
        list[float] | None, typer.Option(min=0.001, help="Requests a second, whatever comes back; may be repeated.")
    ] = None,
    concurrency: Annotated[
        list[int] | None, typer.Option("-c", "--concurrency", min=1, help="Requests at once; may be repeated.")
    ] = None,
    listeners: Annotated[
        list[int] | None, typer.Option(min=1, help="Who hear one answer after the other; may be repeated.")
    ] = None,
    plan: Annotated[str | None, typer.Option(help=f"Loads in a row: {' or '.join(PLANS)}.")] = None,
    requests: Annotated[int | None, typer.Option("-n", "--requests", min=1, help="Of each load.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0.001, help="Until the last request of each load.")] = None,
    even: Annotated[bool, typer.Option("--even", help="Evenly spaced arrivals, not Poisson ones.")] = False,
    arrival_seed: Annotated[int, typer.Option(help="Of the Poisson arrivals.")] = 7,
    warm_up: Annotated[int, typer.Option(min=0, help="Requests before all others, not measured.")] = 2,
    texts: Annotated[Path | None, typer.Option(help="A file of texts, one a line.")] = None,
    voice: Annotated[list[str] | None, typer.Option(help="May be repeated: they take turns.")] = None,
    model: Annotated[str | None, typer.Option(help="The model's name on the wire.")] = None,
    language: Annotated[str | None, typer.Option()] = None,
    instructions: Annotated[str | None, typer.Option(help="How to speak, or the voice to design.")] = None,
    task_type: Annotated[str | None, typer.Option(help="CustomVoice, VoiceDesign or Base.")] = None,
    ref_audio: Annotated[str | None, typer.Option(help="A recording to clone: a file or an address.")] = None,
    ref_text: Annotated[str | None, typer.Option(help="What is said in it, for clones in context.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the first request; the others count on.")] = 1,
    frames: Annotated[
        str | None, typer.Option(help="Cut each utterance to so many frames of 80 ms; 'text': 0.85 a character.")
    ] = None,
    frames_field: Annotated[str, typer.Option(help="The field that says so.")] = "max_new_tokens",
    body: Annotated[str, typer.Option(help="A JSON object of more fields, which win; null takes one out.")] = "{}",
    sample_rate: Annotated[int, typer.Option(min=1, help="Where the answer does not tell it.")] = 24_000,
    audible: Annotated[float, typer.Option(min=0, max=1, help="A sample beyond it can be heard.")] = 0.01,
    buffer: Annotated[float, typer.Option(min=0, help="Seconds for which the second listener waits.")] = 0.1,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds that a request may take.")] = 120.0,
    json_file: Annotated[Path | None, typer.Option("--json", help="A file for every figure.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A file for a picture: .svg, .png, .pdf.")] = None,
) -> None:
    """Measure a running server: latency to the first audio, and whether audio arrives in real time."""
    with _wrong_values():
        loads = _loads(plan, rate, concurrency, listeners, requests, seconds, even=even, seed=arrival_seed)
        fields = {
            "model": model,
            "language": language,
            "instructions": instructions,
            "task_type": task_type,
            "ref_text": ref_text,
            "ref_audio": reference(ref_audio) if ref_audio else None,
        }
        asking = Workload(
            read_texts(texts) if texts else SENTENCES,
            voice or (),
            {**{name: value for name, value in fields.items() if value is not None}, **_object(body)},
            _frames(frames),
            frames_field,
            seed,
        )
        if plot is not None:
            check_plot(plot)
        for path in (json_file, plot):
            if path is not None:
                check_writable(path)
        key = os.environ.get("SONANT_API_KEY")
        client = Client(server, key, patience=timeout, rate=sample_rate, audible=audible)
        _allow_many_connections()
        about = {"server": client.address, "buffer": buffer, "audible": audible}
        results = asyncio.run(_measured(loads, client, asking, warm_up, buffer, json_file, about))
        if plot is not None:
            write_plot(plot, client.address, [(summary.load, each) for summary, each in results])
    _show(results, buffer)
    if not any(summary.good for summary, _ in results):
        raise typer.Exit(1)


async def _measured(
    loads: Sequence[Load],
    client: Client,
    asking: Workload,
    warm_up: int,
    buffer: float,
    file: Path | None,
    about: dict[str, Any],
) -> list[Result]:
    """Run the loads and return the results.

    Writes the results so far to ``file`` after each load, so that they are not lost if a later load is interrupted.
    """
    results: list[Result] = []
    await client.reach()
    async for result in measure(loads, client, asking, warm_up=warm_up, buffer=buffer):
        results.append(result)
        note(f"{result[0].load}: {result[0].good} of {result[0].requests} answered ({len(results)}/{len(loads)})")
        if file is not None:
            write_report(file, about, results)
    return results


def _loads(
    plan: str | None,
    rates: Sequence[float] | None,
    counts: Sequence[int] | None,
    listeners: Sequence[int] | None,
    requests: int | None,
    seconds: float | None,
    *,
    even: bool,
    seed: int,
) -> list[Load]:
    """Return the loads of the plan, then the other given loads; without any, one request at a time."""
    if plan is not None and plan not in PLANS:
        raise ValueError(f"--plan: there is no plan '{plan}', only {', '.join(PLANS)}")
    loads = planned(plan, requests, seconds, even=even, seed=seed) if plan else []
    loads += [open_load(rate, requests, seconds, even=even, seed=seed) for rate in rates or ()]
    loads += [closed_load(count, requests, seconds) for count in counts or ()]
    loads += [audience(count, requests, seconds) for count in listeners or ()]
    return loads or [closed_load(1, requests, seconds)]


def _object(text: str) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise ValueError(f"--body: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError("--body: not a JSON object")
    return fields


def _frames(given: str | None) -> int | Literal["text"] | None:
    if given is None:
        return None
    if given == "text":
        return "text"
    if not given.isdecimal() or int(given) < 1:
        raise ValueError(f"--frames: '{given}' is neither a number nor 'text'")
    return int(given)


def _allow_many_connections() -> None:
    """Raise the open-file limit to its maximum: an open load opens more connections when the server falls behind."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextmanager
def _wrong_values() -> Iterator[None]:
    """Report invalid values like other expected failures, as one line on standard error."""
    with plain_errors("sonant bench"):
        try:
            yield
        except ValueError as error:
            raise OSError(str(error)) from None


def _show(results: Sequence[Result], buffer: float) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)
    summaries = [summary for summary, _ in results]
    if len(summaries) == 1:
        console.print(details(summaries[0]))
    else:
        console.print(comparison(summaries))
    for line in remarks(summaries, buffer):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
