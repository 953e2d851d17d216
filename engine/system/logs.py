"""What the log of every process looks like."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Literal

LogFormat = Literal["text", "json"]

_LONGEST_ENTRY = 32_768
"""Characters of a message, or of a traceback. Whatever is longer holds text that came from outside."""
_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonLines(logging.Formatter):
    """One JSON object an entry, with the ``fields`` that came as its ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        """The entry on one line."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _cut(record.getMessage()),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["exception"] = _cut(self.formatException(record.exc_info))
        return json.dumps(entry)


class TextLines(logging.Formatter):
    """Entries for people."""

    def format(self, record: logging.LogRecord) -> str:
        """The entry, and its traceback on lines of its own."""
        return _cut(super().format(record))


def _cut(text: str) -> str:
    """Bound ``text``, keeping both ends: a traceback ends with the error."""
    half = _LONGEST_ENTRY // 2
    return text if len(text) <= _LONGEST_ENTRY else f"{text[:half]} [...] {text[-half:]}"


def set_up_logging(form: LogFormat) -> None:
    """Log to standard error, as lines for people or as JSON lines."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else TextLines(_TEXT))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
