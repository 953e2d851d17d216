"""Both clients of the openai package, so that one test drives either."""

from __future__ import annotations

import inspect
import json
from typing import Any

import openai

from tests.server.serving import PATIENCE, Serving

Sdk = openai.OpenAI | openai.AsyncOpenAI
KINDS = {"sync": openai.OpenAI, "async": openai.AsyncOpenAI}
ASKED: dict[str, Any] = {"model": "tts-1", "voice": "alloy", "input": "Hello there."}
OURS = {"seed": 7, "max_new_tokens": 24}


def sdk_for(kind: str, serving: Serving, **options: Any) -> Sdk:
    """A client of ``serving``, which asks once unless told otherwise."""
    chosen = {"api_key": "any", "max_retries": 0, "timeout": PATIENCE, **options}
    return KINDS[kind](base_url=f"{serving.url}/v1", **chosen)


async def closed(sdk: Sdk) -> None:
    """Let go of its connections."""
    await settled(sdk.close())


async def settled(answer: Any) -> Any:
    """What a call of either client comes to."""
    return await answer if inspect.isawaitable(answer) else answer


async def streamed_bytes(sdk: Sdk, **asked: Any) -> tuple[bytes, Any]:
    """All that a streaming response carries, and its headers."""
    answer = sdk.audio.speech.with_streaming_response.create(**asked)
    if isinstance(sdk, openai.OpenAI):
        with answer as response:
            return b"".join(response.iter_bytes()), response.headers
    async with answer as response:
        return b"".join([piece async for piece in response.iter_bytes()]), response.headers


def events_of(stream: bytes) -> list[dict[str, Any]]:
    """The data of server-sent events."""
    lines = stream.decode().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
