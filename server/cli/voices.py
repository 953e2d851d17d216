"""The ``sonant voices`` commands: manage the voices of a running server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import httpx
import typer
from rich.console import Console
from rich.table import Table

from server.cli.console import note, plain_errors
from server.voices.embeddings import parse_weighted

app = typer.Typer(no_args_is_help=True, help="List, add, delete and blend the voices of a running server.")

Server = Annotated[
    str, typer.Option("-s", "--server", envvar="SONANT_SERVER", help="Where it listens; SONANT_API_KEY is its key.")
]
Recording = Annotated[Path, typer.Argument(help="A recording of the voice, 1 to 30 s.")]

Private = Annotated[bool, typer.Option("--private", help="For the key in SONANT_API_KEY alone, not for every key.")]

_LOCAL = "http://127.0.0.1:8000"
_PATH = "/v1/audio/voices"
_PATIENCE_SECONDS = 180.0
"""HTTP timeout. Longer than the server's own timeout for a recording."""


@app.command("list")
def list_voices(server: Server = _LOCAL) -> None:
    """Show every voice."""
    with _asking("list", server) as client:
        cards = _answer(client.get(_PATH))["data"]
    table = Table("name", "type", "model", "in context", box=None, pad_edge=False)
    for card in cards:
        fits = card.get("compatible", True)
        model = card.get("model", "") if fits else f"{card['model']} (not this one)"
        table.add_row(card["name"], card["type"], model, "yes" if card.get("in_context") else "")
    Console().print(table)


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="1 to 64 of a-z, 0-9, _ and -.")],
    recording: Recording,
    ref_text: Annotated[str | None, typer.Option(help="What is said in it, for clones in context.")] = None,
    consent: Annotated[str | None, typer.Option(help="Kept with the voice.")] = None,
    private: Private = False,
    server: Server = _LOCAL,
) -> None:
    """Store the voice of a recording."""
    with _asking("add", server) as client:
        texts = {"name": name, "ref_text": ref_text, "consent": consent, "shared": _shared(private)}
        given = {field: text for field, text in texts.items() if text is not None}
        card = _answer(client.post(_PATH, data=given, files={"audio_sample": recording.read_bytes()}))
    note(f"'{card['name']}' is stored")


@app.command()
def rm(names: Annotated[list[str], typer.Argument(help="Stored voices.")], server: Server = _LOCAL) -> None:
    """Delete stored voices."""
    with _asking("rm", server) as client:
        for name in names:
            _answer(client.delete(f"{_PATH}/{quote(name, safe='')}"))
            note(f"'{name}' is deleted")


@app.command()
def blend(
    voices: Annotated[list[str], typer.Argument(help="Voices, each with its weight, such as ava:0.7 emma:0.3.")],
    name: Annotated[str | None, typer.Option(help="Store it; otherwise its embedding is printed as JSON.")] = None,
    private: Private = False,
    server: Server = _LOCAL,
) -> None:
    """Blend several voices into one."""
    with _asking("blend", server) as client:
        shares = [{"voice": voice, "weight": weight} for voice, weight in map(parse_weighted, voices)]
        body = {"voices": shares, "name": name, "shared": not private}
        answer = _answer(client.post(f"{_PATH}/blend", json=body))
    if name is None:
        typer.echo(json.dumps(answer["speaker_embedding"]))
    else:
        note(f"'{answer['name']}' is stored")


@app.command()
def embed(recording: Recording, server: Server = _LOCAL) -> None:
    """Print the speaker embedding of a recording as JSON."""
    with _asking("embed", server) as client:
        answer = _answer(client.post(f"{_PATH}/embedding", files={"audio_sample": recording.read_bytes()}))
    typer.echo(json.dumps(answer["speaker_embedding"]))


def _shared(private: bool) -> str:
    return "false" if private else "true"


@contextmanager
def _asking(command: str, server: str) -> Iterator[httpx.Client]:
    """Yield an HTTP client of the server. Reports its failures as one line on standard error."""
    key = os.environ.get("SONANT_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with plain_errors(f"sonant voices {command}"):
        try:
            with httpx.Client(base_url=server, headers=headers, timeout=_PATIENCE_SECONDS) as client:
                yield client
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise OSError(f"no answer from {server}: {error}") from None
        except ValueError as error:
            raise OSError(str(error)) from None


def _answer(response: httpx.Response) -> dict[str, Any]:
    """Return the JSON object of a response. Raises OSError with the server's message when the request failed."""
    try:
        body = response.json()
    except ValueError:
        body = None
    if response.is_success and isinstance(body, dict):
        return body
    try:
        message = str(body["error"]["message"]) if isinstance(body, dict) else ""
    except (KeyError, TypeError):
        message = ""
    raise OSError(message or f"not an answer of this kind of server ({response.status_code})")
