"""Log format and logging setup of every process."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Literal

LogFormat = Literal["text", "json"]

_LONGEST_ENTRY = 32_768
"""Maximum characters of a message or of a traceback. A longer one contains text from outside the program."""
_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonLines(logging.Formatter):
    """Formats each record as one JSON object, with the entries of ``extra={"fields": {...}}``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
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
    """Formats records as plain text."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line, followed by its traceback if it has one."""
        return _cut(super().format(record))


def _cut(text: str) -> str:
    """Limit the length of ``text``. Keeps both ends, because a traceback ends with the error."""
    half = _LONGEST_ENTRY // 2
    return text if len(text) <= _LONGEST_ENTRY else f"{text[:half]} [...] {text[-half:]}"


def set_up_logging(form: LogFormat) -> None:
    """Log to standard error, as plain text or JSON lines. Replaces existing handlers."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else TextLines(_TEXT))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
