"""The ``sonant bench`` command: measures the latency and the real-time performance of a running server."""

from __future__ import annotations

import asyncio
import json
import os
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

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
    closed_load,
    open_load,
    parse_frames,
    planned,
    read_texts,
    realtime_load,
    recording_url,
)
from server.cli.console import check_writable, note, plain_errors

_WIDTH = 120
"""Width of tables that are not printed to a terminal."""


def bench(
    server: Annotated[
        str,
        typer.Option(
            "-s",
            "--server",
            envvar="SONANT_SERVER",
            help="URL of the server, or of its speech endpoint. The key in SONANT_API_KEY is sent.",
        ),
    ] = "http://127.0.0.1:8000",
    rate: Annotated[
        list[float] | None,
        typer.Option(min=0.001, help="Open load: requests per second, independent of responses. Repeatable."),
    ] = None,
    concurrency: Annotated[
        list[int] | None,
        typer.Option("-c", "--concurrency", min=1, help="Closed load: number of concurrent requests. Repeatable."),
    ] = None,
    listeners: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Real-time load: clients that play one response after the other. Repeatable."),
    ] = None,
    plan: Annotated[str | None, typer.Option(help=f"Run a series of loads: {' or '.join(PLANS)}.")] = None,
    requests: Annotated[
        int | None, typer.Option("-n", "--requests", min=1, help="Number of requests of each load.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds during which each load sends requests.")
    ] = None,
    even: Annotated[bool, typer.Option("--even", help="Evenly spaced arrivals instead of Poisson arrivals.")] = False,
    arrival_seed: Annotated[int, typer.Option(help="Seed of the Poisson arrivals.")] = 7,
    warm_up: Annotated[int, typer.Option(min=0, help="Number of requests before the first load, not measured.")] = 2,
    texts: Annotated[
        Path | None, typer.Option(help="File of texts, one per line. Default: 20 English sentences.")
    ] = None,
    voice: Annotated[list[str] | None, typer.Option(help="Voice. Repeatable: requests use the voices in turn.")] = None,
    model: Annotated[str | None, typer.Option(help="Model name in the requests.")] = None,
    language: Annotated[str | None, typer.Option(help="Language of the texts.")] = None,
    instructions: Annotated[str | None, typer.Option(help="Speaking style, or the voice to design.")] = None,
    task_type: Annotated[str | None, typer.Option(help="CustomVoice, VoiceDesign or Base.")] = None,
    ref_audio: Annotated[str | None, typer.Option(help="Recording of the voice to clone: a file or a URL.")] = None,
    ref_text: Annotated[str | None, typer.Option(help="Transcript of the recording, for in-context cloning.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first request; each further request adds 1.")] = 1,
    frames: Annotated[
        str | None,
        typer.Option(
            help="Limit each utterance to this number of 80 ms frames; 'text' means 0.85 frames per character."
        ),
    ] = None,
    frames_field: Annotated[str, typer.Option(help="Request field in which --frames is sent.")] = "max_new_tokens",
    body: Annotated[
        str, typer.Option(help="JSON object of request fields that override the others; null removes a field.")
    ] = "{}",
    sample_rate: Annotated[
        int, typer.Option(min=1, help="Sample rate in Hz of responses that do not state it.")
    ] = 24_000,
    audible: Annotated[
        float, typer.Option(min=0, max=1, help="Magnitude above which a sample is audible; full scale is 1.")
    ] = 0.01,
    buffer: Annotated[
        float,
        typer.Option(
            min=0, help="Seconds after the first audio at which the simulated buffering client starts to play."
        ),
    ] = 0.1,
    timeout: Annotated[float, typer.Option(min=0.001, help="Timeout of a request in seconds.")] = 120.0,
    json_file: Annotated[Path | None, typer.Option("--json", help="File to write all figures to.")] = None,
    plot: Annotated[Path | None, typer.Option(help="File to write a plot to: .svg, .png or .pdf.")] = None,
) -> None:
    """Measure a running server: latency to the first audio, and whether audio arrives in real time."""
    with _report_invalid_values():
        loads = _loads(plan, rate, concurrency, listeners, requests, seconds, even=even, seed=arrival_seed)
        fields = {
            "model": model,
            "language": language,
            "instructions": instructions,
            "task_type": task_type,
            "ref_text": ref_text,
            "ref_audio": recording_url(ref_audio) if ref_audio else None,
        }
        workload = Workload(
            read_texts(texts) if texts else SENTENCES,
            voice or (),
            {**{name: value for name, value in fields.items() if value is not None}, **_object(body)},
            parse_frames(frames),
            frames_field,
            seed,
        )
        if plot is not None:
            check_plot(plot)
        for path in (json_file, plot):
            if path is not None:
                check_writable(path)
        key = os.environ.get("SONANT_API_KEY")
        client = Client(server, key, timeout=timeout, rate=sample_rate, audible=audible)
        _allow_many_connections()
        about = {"server": client.address, "buffer": buffer, "audible": audible}
        results = asyncio.run(_measured(loads, client, workload, warm_up, buffer, json_file, about))
        if plot is not None:
            write_plot(plot, client.address, [(summary.load, each) for summary, each in results])
    _show(results, buffer)
    if not any(summary.succeeded for summary, _ in results):
        raise typer.Exit(1)


async def _measured(
    loads: Sequence[Load],
    client: Client,
    workload: Workload,
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
    async for result in measure(loads, client, workload, warm_up=warm_up, buffer=buffer):
        results.append(result)
        note(f"{result[0].load}: {result[0].succeeded} of {result[0].requests} answered ({len(results)}/{len(loads)})")
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
        raise ValueError(f"--plan must be one of {', '.join(PLANS)}, got '{plan}'")
    loads = planned(plan, requests, seconds, even=even, seed=seed) if plan else []
    loads += [open_load(rate, requests, seconds, even=even, seed=seed) for rate in rates or ()]
    loads += [closed_load(count, requests, seconds) for count in counts or ()]
    loads += [realtime_load(count, requests, seconds) for count in listeners or ()]
    return loads or [closed_load(1, requests, seconds)]


def _object(text: str) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise ValueError(f"--body is not valid JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError("--body must be a JSON object")
    return fields


def _allow_many_connections() -> None:
    """Raise the open-file limit to its maximum: an open load opens more connections when the server falls behind."""
    _, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, maximum))


@contextmanager
def _report_invalid_values() -> Iterator[None]:
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
