"""How the files of an untrained checkpoint are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_json(file: Path, values: dict[str, Any]) -> None:
    """Indented UTF-8 with a final newline, the same bytes on every system."""
    text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    file.write_text(text, encoding="utf-8", newline="\n")
