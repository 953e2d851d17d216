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
    str,
    typer.Option(
        "-s", "--server", envvar="SONANT_SERVER", help="URL of the server. The key in SONANT_API_KEY is sent."
    ),
]
Recording = Annotated[Path, typer.Argument(help="Recording of the voice, 1 to 30 s.")]

Private = Annotated[bool, typer.Option("--private", help="Only the key in SONANT_API_KEY can use the voice.")]

_LOCAL = "http://127.0.0.1:8000"
_PATH = "/v1/audio/voices"
_TIMEOUT_SECONDS = 180.0
"""HTTP timeout: longer than the server's timeout for a recording."""


@app.command("list")
def list_voices(server: Server = _LOCAL) -> None:
    """List all voices."""
    with _client("list", server) as client:
        cards = _response_json(client.get(_PATH))["data"]
    table = Table("name", "type", "model", "in context", box=None, pad_edge=False)
    for card in cards:
        compatible = card.get("compatible", True)
        model = card.get("model", "") if compatible else f"{card['model']} (not compatible)"
        table.add_row(card["name"], card["type"], model, "yes" if card.get("in_context") else "")
    Console().print(table)


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="Name of the voice, up to 100 characters.")],
    recording: Recording,
    ref_text: Annotated[str | None, typer.Option(help="Transcript of the recording, for in-context cloning.")] = None,
    consent: Annotated[
        str | None, typer.Option(help="Statement of the speaker's consent, stored with the voice.")
    ] = None,
    private: Private = False,
    server: Server = _LOCAL,
) -> None:
    """Store a voice, cloned from a recording."""
    with _client("add", server) as client:
        fields = {"name": name, "ref_text": ref_text, "consent": consent, "shared": "false" if private else "true"}
        form = {field: text for field, text in fields.items() if text is not None}
        card = _response_json(client.post(_PATH, data=form, files={"audio_sample": recording.read_bytes()}))
    note(f"stored the voice '{card['name']}'")


@app.command()
def rm(names: Annotated[list[str], typer.Argument(help="Names of stored voices.")], server: Server = _LOCAL) -> None:
    """Delete stored voices."""
    with _client("rm", server) as client:
        for name in names:
            _response_json(client.delete(f"{_PATH}/{quote(name, safe='')}"))
            note(f"deleted the voice '{name}'")


@app.command()
def blend(
    voices: Annotated[list[str], typer.Argument(help="Voices and their weights, for example ava:0.7 emma:0.3.")],
    name: Annotated[
        str | None, typer.Option(help="Store the blend under this name. Default: print its embedding as JSON.")
    ] = None,
    private: Private = False,
    server: Server = _LOCAL,
) -> None:
    """Blend several voices into one."""
    with _client("blend", server) as client:
        weights = [{"voice": voice, "weight": weight} for voice, weight in map(parse_weighted, voices)]
        body = {"voices": weights, "name": name, "shared": not private}
        blended = _response_json(client.post(f"{_PATH}/blend", json=body))
    if name is None:
        typer.echo(json.dumps(blended["speaker_embedding"]))
    else:
        note(f"stored the voice '{blended['name']}'")


@app.command()
def embed(recording: Recording, server: Server = _LOCAL) -> None:
    """Print the speaker embedding of a recording as JSON."""
    with _client("embed", server) as client:
        response = client.post(f"{_PATH}/embedding", files={"audio_sample": recording.read_bytes()})
        embedding = _response_json(response)["speaker_embedding"]
    typer.echo(json.dumps(embedding))


@contextmanager
def _client(command: str, server: str) -> Iterator[httpx.Client]:
    """Yield an HTTP client of the server. Reports its failures as one line on standard error."""
    key = os.environ.get("SONANT_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with plain_errors(f"sonant voices {command}"):
        try:
            with httpx.Client(base_url=server, headers=headers, timeout=_TIMEOUT_SECONDS) as client:
                yield client
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise OSError(f"the request to {server} failed: {error}") from None
        except ValueError as error:
            raise OSError(str(error)) from None


def _response_json(response: httpx.Response) -> dict[str, Any]:
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
    raise OSError(message or f"{response.url} is not of a Sonant server: status {response.status_code}, no JSON object")
