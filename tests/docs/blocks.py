"""The code blocks of the documentation pages."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

RUN = frozenset({"sh", "python", "js"})
"""Languages whose blocks are run."""

KNOWN = RUN | {"yaml", "text"}
"""yaml: settings, which are validated; text: not code."""

_MARK = re.compile(r"<!-- not run: (?P<reason>\S.*?) -->\s*")


@dataclass(frozen=True)
class Block:
    """A code block. ``line``: number of its first line of code; ``reason``: why it is not run, if so."""

    page: Path
    line: int
    language: str
    code: str
    reason: str | None

    @property
    def name(self) -> str:
        """Page and line."""
        return f"{os.path.relpath(self.page, ROOT)}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """Every code block of a page, from top to bottom."""
    found: list[Block] = []
    before = None
    for token in MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8")):
        if token.type in ("fence", "code_block"):
            mark = _MARK.fullmatch(before.content) if before and before.type == "html_block" else None
            assert token.map is not None
            reason = mark["reason"] if mark else None
            found.append(Block(page, token.map[0] + 2, token.info.strip(), token.content, reason))
        before = token
    return found


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
