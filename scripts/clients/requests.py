"""The requests of the clients, in ``requests.json``: recorded ones, and those taken from a client's source code."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx

REQUESTS = Path(__file__).with_name("requests.json")
DIALOGUES = Path(__file__).with_name("dialogues.json")
_TIMEOUT = 600.0


@dataclass(frozen=True)
class ClientRequest:
    """A request as a client sends it.

    name: which of the client's requests it is. source: the file in the client's source code that builds the request;
    empty if the request was recorded.
    """

    client: str
    name: str
    version: str
    source: str
    path: str
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)

    def send(self, server: httpx.Client) -> httpx.Response:
        """Send it, with exactly these headers and ``Host`` and ``Content-Length``."""
        server.headers.clear()
        return server.post(self.path, content=json.dumps(self.body).encode(), headers=self.headers)


def load() -> list[ClientRequest]:
    """Return all requests."""
    return [ClientRequest(**each) for each in json.loads(REQUESTS.read_text(encoding="utf-8"))]


def store(recorded: list[ClientRequest]) -> None:
    """Add recorded requests. They replace those with the same client and name."""
    requests = {(each.client, each.name): each for each in [*load(), *recorded]}
    ordered = sorted(requests.values(), key=lambda each: (bool(each.source), each.client, each.name))
    _write(REQUESTS, [asdict(each) for each in ordered])


def load_dialogues() -> dict[str, list[str]]:
    """Return the pieces of text that each client made of the dialogue."""
    dialogues: dict[str, list[str]] = json.loads(DIALOGUES.read_text(encoding="utf-8"))
    return dialogues


def store_dialogues(recorded: dict[str, list[str]]) -> None:
    """Replace the dialogues of the clients in ``recorded``."""
    _write(DIALOGUES, {**load_dialogues(), **recorded})


def _write(file: Path, content: Any) -> None:
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
