"""Writes the files of a random checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_json(file: Path, values: dict[str, Any]) -> None:
    """Write indented UTF-8 JSON with a final newline; the bytes are the same on every system."""
    text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    file.write_text(text, encoding="utf-8", newline="\n")
