"""Scripts of several speakers for ``sonant say --script``."""

from __future__ import annotations

import re
from pathlib import Path

from server.errors import ApiError, shown

_LINE = re.compile(r"([^:]+):\s*(\S.*)")


def read_script(path: Path) -> list[dict[str, str]]:
    """Return the turns of a script as ``input`` of a speech request: one for each line ``voice: text``.

    Empty lines and lines that begin with # are skipped. Raises ApiError that names the line, and OSError.
    """
    turns: list[dict[str, str]] = []
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ApiError(f"{path} must be UTF-8 text: {error.reason} at byte {error.start}") from None
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise ApiError(f"{path}, line {number}: must be 'voice: text', got '{shown(line)}'")
        turns.append({"voice": match[1].strip(), "input": match[2]})
    if not turns:
        raise ApiError(f"{path} has no line 'voice: text'")
    return turns
