"""What a batch answers."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from server.errors import Failure


@dataclass(frozen=True, slots=True)
class Spoken:
    """An item's file, and what is told of it beside."""

    audio: bytes
    media_type: str
    sample_rate: int
    ending: dict[str, Any]

    def fields(self) -> dict[str, Any]:
        """It on the wire."""
        return {
            "status": "success",
            "audio_data": base64.b64encode(self.audio).decode(),
            "media_type": self.media_type,
            "sample_rate": self.sample_rate,
            **self.ending,
        }


Result = Spoken | Failure


def answer(name: str, results: Sequence[Result]) -> bytes:
    """The body of the reply. Takes time where there is much audio: call it off the event loop."""
    spoken = sum(isinstance(result, Spoken) for result in results)
    items = [
        {"index": index, "request_id": f"{name}.{index}", **_fields(result)} for index, result in enumerate(results)
    ]
    counts = {"total": len(results), "succeeded": spoken, "failed": len(results) - spoken}
    return json.dumps({"id": name, "object": "audio.speech.batch", "results": items, **counts}).encode()


def _fields(result: Result) -> dict[str, Any]:
    return result.fields() if isinstance(result, Spoken) else {"status": "error", **result.body()}
