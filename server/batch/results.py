"""The results of a batch, and its response body."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from server.errors import Failure


@dataclass(frozen=True, slots=True)
class Spoken:
    """The audio file of an item, with its metadata."""

    audio: bytes
    media_type: str
    sample_rate: int
    ending: dict[str, Any]

    def fields(self) -> dict[str, Any]:
        """Return the item's fields in the response."""
        return {
            "status": "success",
            "audio_data": base64.b64encode(self.audio).decode(),
            "media_type": self.media_type,
            "sample_rate": self.sample_rate,
            **self.ending,
        }


Result = Spoken | Failure


def answer(name: str, results: Sequence[Result]) -> bytes:
    """Return the response body. Encoding much audio is slow: call this off the event loop."""
    spoken = sum(isinstance(result, Spoken) for result in results)
    items = [
        {"index": index, "request_id": f"{name}.{index}", **_fields(result)} for index, result in enumerate(results)
    ]
    counts = {"total": len(results), "succeeded": spoken, "failed": len(results) - spoken}
    return json.dumps({"id": name, "object": "audio.speech.batch", "results": items, **counts}).encode()


def _fields(result: Result) -> dict[str, Any]:
    return result.fields() if isinstance(result, Spoken) else {"status": "error", **result.body()}
