"""Speech as server-sent events, read with a plain HTTP client."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import httpx
import pytest

from server.synthesis.sse import with_pings
from tests.server.audio_decoding import CONTENT_TYPES
from tests.server.serving import SPEECH, Serving, busy, endless, speech, streamed


def parse_events(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The data of each event; asserts that the event name equals its type."""
    name = None
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            data = json.loads(line.removeprefix("data: "))
            assert data["type"] == name
            yield data


@pytest.mark.parametrize("kind", CONTENT_TYPES)
def test_the_deltas_equal_the_raw_stream(client: httpx.Client, kind: str) -> None:
    with streamed(client, speech(response_format=kind, stream_format="sse")) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["x-sample-rate"] == "24000"
        *deltas, done = parse_events(response.iter_lines())
    raw = client.post(SPEECH, json=speech(response_format=kind)).content
    assert len(deltas) > 1
    assert {delta["type"] for delta in deltas} == {"speech.audio.delta"}
    assert b"".join(base64.b64decode(delta["audio"]) for delta in deltas) == raw
    assert done["type"] == "speech.audio.done"


async def test_closing_a_ping_stream_ends_the_wrapped_stream() -> None:
    ended = []

    async def never() -> AsyncIterator[bytes]:
        try:
            yield await asyncio.Event().wait() and b""
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    pinged = with_pings(never(), 0.001)
    assert await anext(pinged) == b": ping\n\n"
    await pinged.aclose()
    assert ended


def test_the_usage_counts_text_tokens_and_frames(client: httpx.Client) -> None:
    with streamed(client, endless(max_new_tokens=10, stream_format="sse")) as response:
        *_, done = parse_events(response.iter_lines())
    usage = done["usage"]
    assert done["finish_reason"] == "length"
    assert usage["output_tokens"] == 9
    assert usage["input_tokens"] > 0
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_the_first_delta_is_sent_before_the_last_frame_is_generated(serving: Serving, client: httpx.Client) -> None:
    with streamed(client, endless(stream_format="sse")) as response:
        received = parse_events(response.iter_lines())
        assert next(received)["type"] == "speech.audio.delta"
        assert busy(serving.stats()) > 0
        assert next(received)["type"] == "speech.audio.delta"
    serving.until_idle()


def test_a_request_that_fails_before_the_first_audio_gets_a_status_and_no_events(client: httpx.Client) -> None:
    response = client.post(SPEECH, json=speech(stream_format="sse", language="klingon"))
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/json"
    assert response.json()["error"]["param"] == "language"
