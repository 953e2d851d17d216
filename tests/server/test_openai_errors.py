"""Refusals become the exceptions that users of the openai package expect."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.server.openai_sdk import EXTRA_BODY, KINDS, REQUEST, Sdk, close_sdk, resolve, sdk_for
from tests.server.recordings import tone, wav
from tests.server.serving import ScriptedServing, Serving, endless, streamed, write_config

KEY = "a-key"
RECORDING = ("recording.wav", wav(tone(1.6)), "audio/wav")


@pytest.fixture(scope="module")
def one_request_config(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    limits = {"max_running": 1, "max_waiting": 0, "max_input_chars": 100}
    folder = tmp_path_factory.mktemp("one-request")
    return write_config(folder, pocket, voice_aliases={"alloy": "vivian"}, limits=limits)


@pytest.fixture(scope="module")
def one_request(one_request_config: Path) -> Iterator[Serving]:
    """A server with a key that runs one request at a time and queues none."""
    with ScriptedServing(one_request_config, SONANT_API_KEY=KEY) as server:
        server.headers = {"Authorization": f"Bearer {KEY}"}
        yield server.ready()


@pytest.fixture(params=KINDS)
async def sdk(request: pytest.FixtureRequest, one_request: Serving) -> AsyncIterator[Sdk]:
    client = sdk_for(request.param, one_request, api_key=KEY)
    yield client
    await close_sdk(client)


async def raised_error(
    kind: type[openai.APIStatusError], call: Any, *values: Any, **fields: Any
) -> openai.APIStatusError:
    """The exception raised by a call."""
    with pytest.raises(kind) as error:
        await resolve(call(*values, **fields))
    assert error.value.message
    assert error.value.request_id
    return error.value


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"speed": 9.0}, "speed", "invalid_value"),
        ({"response_format": "midi"}, "response_format", "invalid_value"),
        ({"stream_format": "carrier"}, "stream_format", "invalid_value"),
        ({"input": ""}, "input", "invalid_value"),
        ({"input": "a" * 101, "extra_body": {"split": "none"}}, "input", "string_above_max_length"),
        ({"voice": {"name": "ryan"}}, "voice.id", "missing_required_parameter"),
        ({"extra_body": {"sped": 2}}, "sped", "unknown_parameter"),
        ({"extra_body": {"timestamp_granularities": ["segment"]}}, "timestamp_granularities", "invalid_value"),
        ({"extra_body": {"timestamps": True}}, "timestamps", "unknown_parameter"),
    ],
)
async def test_an_invalid_value_names_its_field(sdk: Sdk, fields: dict[str, Any], param: str, code: str) -> None:
    error = await raised_error(openai.BadRequestError, sdk.audio.speech.create, **{**REQUEST, **fields})
    assert (error.type, error.param, error.code) == ("invalid_request_error", param, code)


async def test_an_unknown_voice_is_a_not_found_error_that_lists_the_voices(sdk: Sdk) -> None:
    error = await raised_error(openai.NotFoundError, sdk.audio.speech.create, **{**REQUEST, "voice": "nobody"})
    assert (error.code, error.param) == ("voice_not_found", "voice")
    assert "vivian" in error.message


async def test_an_unknown_model_is_a_not_found_error(sdk: Sdk) -> None:
    error = await raised_error(openai.NotFoundError, sdk.audio.speech.create, **{**REQUEST, "model": "tts-9"})
    assert (error.code, error.param) == ("model_not_found", "model")
    assert (await raised_error(openai.NotFoundError, sdk.models.retrieve, "tts-9")).code == "model_not_found"


async def test_a_model_cannot_be_deleted(sdk: Sdk) -> None:
    assert (await raised_error(openai.APIStatusError, sdk.models.delete, "pocket")).status_code == 405


async def test_a_wrong_key_is_an_authentication_error(sdk: Sdk) -> None:
    other = sdk.with_options(api_key="another")
    assert (
        await raised_error(openai.AuthenticationError, other.audio.speech.create, **REQUEST)
    ).code == "invalid_api_key"


async def test_a_body_that_is_too_large_is_a_413(sdk: Sdk) -> None:
    body = {"ref_audio": "data:audio/wav;base64," + "A" * (17 * 1024 * 1024)}
    error = await raised_error(openai.APIStatusError, sdk.audio.speech.create, **REQUEST, extra_body=body)
    assert (error.status_code, error.code) == (413, "request_too_large")


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # the package warns about its own methods
async def test_unsupported_endpoints_are_not_found_errors(sdk: Sdk) -> None:
    large = ("recording.wav", bytes(8 * 1024 * 1024), "audio/wav")
    words: dict[str, Any] = {"response_format": "verbose_json", "timestamp_granularities": ["word"]}
    consents = sdk.audio.voice_consents
    for call, values, fields in [
        (sdk.audio.transcriptions.create, (), {"model": "whisper-1", "file": RECORDING}),
        (sdk.audio.transcriptions.create, (), {"model": "gpt-4o-transcribe", "file": large, **words}),
        (sdk.audio.translations.create, (), {"model": "whisper-1", "file": RECORDING}),
        (consents.create, (), {"language": "en-US", "name": "mine", "recording": RECORDING}),
        (consents.retrieve, ("cons_1",), {}),
        (consents.update, ("cons_1",), {"name": "yours"}),
        (consents.delete, ("cons_1",), {}),
        (consents.list, (), {}),
    ]:
        error = await raised_error(openai.NotFoundError, call, *values, **fields)
        assert (error.code, error.type) == ("not_supported", "invalid_request_error")


@asynccontextmanager
async def occupied(one_request: Serving) -> AsyncIterator[None]:
    """Another client streams for the duration of the block."""
    one_request.until_idle()
    with one_request.client() as client, streamed(client, endless()) as response:
        pieces = response.iter_raw()
        assert next(pieces)
        yield


async def test_a_full_server_is_a_rate_limit_error_with_retry_after(sdk: Sdk, one_request: Serving) -> None:
    async with occupied(one_request):
        error = await raised_error(openai.RateLimitError, sdk.audio.speech.create, **REQUEST, extra_body=EXTRA_BODY)
    assert (error.type, error.code) == ("rate_limit_error", "rate_limit_exceeded")
    assert int(error.response.headers["retry-after"]) > 0


async def test_a_retry_succeeds_when_the_server_is_free(sdk: Sdk, one_request: Serving) -> None:
    name = f"again-{type(sdk).__name__}"
    create = sdk.with_options(max_retries=5).audio.speech.with_raw_response.create
    fields = {**REQUEST, "extra_body": EXTRA_BODY, "extra_headers": {"X-Request-Id": name}}
    async with occupied(one_request):
        thread = asyncio.to_thread(create, **fields) if isinstance(sdk, openai.OpenAI) else create(**fields)
        call = asyncio.create_task(thread)
        await asyncio.to_thread(one_request.wait_for, rf"\b{name}\b.*turned_away")
    answer = await call
    assert answer.retries_taken > 0
    assert answer.parse().content


async def test_a_client_timeout_cancels_the_request(sdk: Sdk, one_request: Serving) -> None:
    one_request.until_idle()
    request = {**REQUEST, "extra_body": {**endless(), "stream": False, "response_format": "wav"}, "timeout": 0.5}
    with pytest.raises(openai.APITimeoutError):
        await resolve(sdk.audio.speech.create(**request))
    one_request.until_idle()


async def test_a_draining_server_is_an_internal_server_error(one_request_config: Path) -> None:
    with ScriptedServing(one_request_config) as server:
        clients = [sdk_for(kind, server.ready()) for kind in KINDS]
        async with occupied(server):
            server.process.terminate()
            await asyncio.to_thread(server.wait_for, "1 utterance in flight may finish")
            for sdk in clients:
                error = await raised_error(openai.InternalServerError, sdk.audio.speech.create, **REQUEST)
                assert (error.status_code, error.code) == (503, "draining")
                assert int(error.response.headers["retry-after"]) > 0
                await close_sdk(sdk)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_unreachable_server_is_a_connection_error(kind: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        sdk = KINDS[kind][0](base_url=url, api_key="any", max_retries=0)
        with pytest.raises(openai.APIConnectionError):
            await resolve(sdk.audio.speech.create(**REQUEST))
        await close_sdk(sdk)
