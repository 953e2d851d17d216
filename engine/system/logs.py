"""Log format and logging setup of every process."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Literal

from typing_extensions import override

LogFormat = Literal["text", "json"]

_MAX_ENTRY_CHARS = 32_768
"""Maximum characters of a message or of a traceback. A longer one contains text from outside the program."""
_TEXT_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonFormatter(logging.Formatter):
    """Formats each record as one JSON object, with the entries of ``extra={"fields": {...}}``."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _truncate(record.getMessage()),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["exception"] = _truncate(self.formatException(record.exc_info))
        return json.dumps(entry)


class TextFormatter(logging.Formatter):
    """Formats each record as a line of plain text, followed by its traceback if it has one."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        return _truncate(super().format(record))


def _truncate(text: str) -> str:
    """Limit the length of ``text``. Keeps both ends, because a traceback ends with the error."""
    half = _MAX_ENTRY_CHARS // 2
    return text if len(text) <= _MAX_ENTRY_CHARS else f"{text[:half]} [...] {text[-half:]}"


def set_up_logging(log_format: LogFormat) -> None:
    """Log to standard error, as plain text or JSON lines. Replaces existing handlers."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter(_TEXT_FORMAT))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
