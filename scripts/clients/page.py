"""The page of the clients: the examples on it, and its tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

from scripts.clients.catalog import Client
from scripts.clients.environments import ROOT

PAGE = ROOT / "docs" / "guides" / "clients.md"
ADDRESS = "http://127.0.0.1:8000"
"""The server's address in the examples."""


def example(client: Client) -> str:
    """Return the first block in the client's language in its section of the page."""
    text = PAGE.read_text(encoding="utf-8")
    match = re.search(rf"^## {re.escape(client.name)}$.*?^```{client.language}\n(.*?)^```$", text, re.M | re.S)
    if match is None:
        raise SystemExit(f"{PAGE} has no example for {client.name}")
    return match[1]


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def write_table(name: str, content: str) -> None:
    """Replace the table ``name`` of the page."""
    text = PAGE.read_text(encoding="utf-8")
    start, end = f"<!-- clients: {name} -->\n", "<!-- clients: end -->"
    before, _, rest = text.partition(start)
    PAGE.write_text(f"{before}{start}\n{content}\n\n{end}{rest.partition(end)[2]}", encoding="utf-8")
