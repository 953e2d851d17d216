"""The results of a batch, and its response body."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from server.errors import Failure


@dataclass(frozen=True, slots=True)
class ItemAudio:
    """The audio file of an item, with its metadata.

    completion: the finish reason and the usage, as JSON fields. words: the field ``words``, if the item wants it.
    """

    audio: bytes
    media_type: str
    sample_rate: int
    completion: dict[str, Any]
    words: dict[str, Any]

    def fields(self) -> dict[str, Any]:
        """Return the item's fields in the response."""
        return {
            "status": "success",
            "audio_data": base64.b64encode(self.audio).decode(),
            "media_type": self.media_type,
            "sample_rate": self.sample_rate,
            **self.completion,
            **self.words,
        }


ItemResult = ItemAudio | Failure


def batch_body(batch_id: str, results: Sequence[ItemResult]) -> bytes:
    """Return the response body. Encoding much audio is slow: call this off the event loop."""
    succeeded = sum(isinstance(result, ItemAudio) for result in results)
    items = [
        {"index": index, "request_id": f"{batch_id}.{index}", **_fields(result)} for index, result in enumerate(results)
    ]
    counts = {"total": len(results), "succeeded": succeeded, "failed": len(results) - succeeded}
    return json.dumps({"id": batch_id, "object": "audio.speech.batch", "results": items, **counts}).encode()


def _fields(result: ItemResult) -> dict[str, Any]:
    return result.fields() if isinstance(result, ItemAudio) else {"status": "error", **result.body()}
