"""Both clients of the openai package, so that one test covers both."""

from __future__ import annotations

import inspect
import json
from typing import Any

import openai

from tests.server.serving import NO_CERTIFICATES, TIMEOUT, Serving

Sdk = openai.OpenAI | openai.AsyncOpenAI
KINDS = {
    "sync": (openai.OpenAI, openai.DefaultHttpxClient),
    "async": (openai.AsyncOpenAI, openai.DefaultAsyncHttpxClient),
}
REQUEST: dict[str, Any] = {"model": "tts-1", "voice": "alloy", "input": "Hello there."}
EXTRA_BODY = {"seed": 7, "max_new_tokens": 24}


def sdk_for(kind: str, serving: Serving, **options: Any) -> Sdk:
    """A client of ``serving``, without retries unless ``options`` say otherwise."""
    client, http_client = KINDS[kind]
    chosen = {"api_key": "any", "max_retries": 0, "timeout": TIMEOUT, **options}
    return client(base_url=f"{serving.url}/v1", http_client=http_client(verify=NO_CERTIFICATES), **chosen)


async def close_sdk(sdk: Sdk) -> None:
    """Close the client's connections."""
    await resolve(sdk.close())


async def resolve(answer: Any) -> Any:
    """The result of a call to either client."""
    return await answer if inspect.isawaitable(answer) else answer


async def streamed_bytes(sdk: Sdk, **request: Any) -> tuple[bytes, Any]:
    """The whole body of a streaming response, and its headers."""
    answer = sdk.audio.speech.with_streaming_response.create(**request)
    if isinstance(sdk, openai.OpenAI):
        with answer as response:
            return b"".join(response.iter_bytes()), response.headers
    async with answer as response:
        return b"".join([piece async for piece in response.iter_bytes()]), response.headers


def events_of(stream: bytes) -> list[dict[str, Any]]:
    """The data of each server-sent event."""
    lines = stream.decode().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
