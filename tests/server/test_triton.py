"""The gRPC listener, with the clients of ``tritonclient``."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import numpy as np
import pytest
import pytest_asyncio
from tritonclient import grpc as triton
from tritonclient.grpc import aio as triton_aio
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from engine.errors import EngineUnavailable
from engine.protocol.request import Voice
from server.errors import ApiError, ClientDisconnected
from server.keys.key_file import key_id, plain_key
from server.keys.valid_keys import Keys
from server.settings import SettingsError
from server.triton.calls import Caller, caller_of
from server.triton.responses import Responses
from server.triton.stream import InferStream
from server.triton.tensors import input_tensors
from tests.server.scripted_listeners import TIMEOUT, ListeningServer, listening_server
from tests.server.serving import SPEECH
from tests.support.scripted_engine import ScriptedEngine, Take, info

TEXT = "The quick brown fox jumps over the lazy dog."
KEYS = {"api_key": "the-key"}
AUTHORIZED = {"authorization": "Bearer the-key"}
NUMPY_TYPES = {"BYTES": object, "FP32": np.float32, "INT32": np.int32, "INT64": np.int64, "BOOL": bool}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ListeningServer]:
    with pytest.MonkeyPatch.context() as patch:
        async with listening_server(tmp_path_factory.mktemp("voices"), patch, grpc={"port": 0}, **KEYS) as server:
            server.client.headers["Authorization"] = AUTHORIZED["authorization"]
            yield server


@pytest.fixture
def server(shared: ListeningServer) -> ListeningServer:
    """The shared server, whose engine has received nothing."""
    shared.engine.streams.clear()
    return shared


def address_of(server: ListeningServer) -> str:
    assert server.sockets.grpc is not None
    return f"127.0.0.1:{server.sockets.grpc.getsockname()[1]}"


@asynccontextmanager
async def connected(server: ListeningServer) -> AsyncIterator[triton_aio.InferenceServerClient]:
    async with asyncio.timeout(TIMEOUT), triton_aio.InferenceServerClient(address_of(server)) as client:
        yield client


def tensor(name: str, kind: str, *values: Any, shape: tuple[int, ...] | None = None) -> triton.InferInput:
    made = triton.InferInput(name, shape or [len(values)], kind)
    made.set_data_from_numpy(np.array(values, NUMPY_TYPES[kind]).reshape(shape or [len(values)]))
    return made


def request(text: str = TEXT, *others: triton.InferInput, **fields: Any) -> dict[str, Any]:
    """A request for ``stream_infer`` of the aio client."""
    return {"model_name": "model", "inputs": [tensor("input", "BYTES", text), *others], **fields}


async def each(*requests: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    for one in requests:
        yield one


async def stream(
    client: triton_aio.InferenceServerClient, *requests: dict[str, Any], **headers: str
) -> list[tuple[triton.InferResult, InferenceServerException | None]]:
    """All responses to ``requests``, sent on one stream."""
    responses = client.stream_infer(each(*requests), headers={**AUTHORIZED, **headers})
    return [response async for response in responses]


def samples_of(responses: list[Any], output: str = "pcm", request_id: str = "") -> np.ndarray:
    results = [result for result, error in responses if error is None]
    return np.concatenate([one.as_numpy(output) for one in results if one.get_response().id == request_id])


PCM = [triton.InferRequestedOutput("pcm")]


async def http_samples(server: ListeningServer, text: str = TEXT, **fields: Any) -> np.ndarray:
    body = {"input": text, "response_format": "pcm", **fields}
    response = await server.client.post(SPEECH, json=body)
    return np.frombuffer(response.raise_for_status().content, "<i2")


async def test_describes_the_server_and_the_model(server: ListeningServer) -> None:
    async with connected(server) as client:
        assert await client.is_server_live()
        described = await client.get_server_metadata(headers=AUTHORIZED)
        assert described.name == "sonant"
        for name in ("model", "tts-1"):
            assert await client.is_model_ready(name, headers=AUTHORIZED) == await client.is_server_ready()
            metadata = await client.get_model_metadata(name, headers=AUTHORIZED)
            assert (metadata.name, list(metadata.versions)) == ("model", ["1"])
            assert [(each.name, each.datatype) for each in metadata.outputs] == [("waveform", "FP32"), ("pcm", "INT16")]
            config = (await client.get_model_config(name, headers=AUTHORIZED)).config
            assert config.model_transaction_policy.decoupled
            assert [each.name for each in config.input if not each.optional] == ["input"]


async def test_is_ready_as_http_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ScriptedEngine()
    monkeypatch.setattr(engine, "stats", lambda timeout: asyncio.sleep(0, {}))
    async with listening_server(tmp_path, monkeypatch, engine, grpc={"port": 0}) as server, connected(server) as client:
        assert await client.is_server_ready()

        def fail() -> None:
            raise EngineUnavailable("the engine is restarting", code="engine_lost")

        monkeypatch.setattr(engine, "check_health", fail)
        assert not await client.is_server_ready()
        assert not await client.is_model_ready("model")


async def test_streams_the_audio_of_http(server: ListeningServer) -> None:
    async with connected(server) as client:
        responses = await stream(client, request(outputs=PCM, request_id="one", parameters={"seed": 7}))
    assert len(responses) > 2
    assert all(error is None for _, error in responses)
    first = responses[0][0].get_response()
    assert (first.model_name, first.model_version) == ("model", "1")
    assert first.parameters["sample_rate"].int64_param == 24_000
    assert np.array_equal(samples_of(responses, request_id="one"), await http_samples(server, seed=7))
    outcome = (await server.client.get(f"{SPEECH}/one")).json()
    assert (outcome["outcome"], outcome["finish"]) == ("completed", "stop")


async def test_the_default_output_is_float32(server: ListeningServer) -> None:
    async with connected(server) as client:
        waveform = samples_of(await stream(client, request()), "waveform")
    assert waveform.dtype == np.float32
    assert np.allclose(waveform, (await http_samples(server)) / 32767)


async def test_one_response_has_the_complete_audio_of_a_unary_call(server: ListeningServer) -> None:
    async with connected(server) as client:
        result = await client.infer("tts-1", request()["inputs"], outputs=PCM, headers=AUTHORIZED)
    assert result.get_response().model_name == "model"
    assert np.array_equal(result.as_numpy("pcm"), await http_samples(server))


async def test_requests_of_one_stream_run_at_the_same_time(server: ListeningServer) -> None:
    texts = {"a": TEXT, "b": "Another text.", "c": "A third one, in the same stream."}
    requests = [request(text, request_id=name, outputs=PCM) for name, text in texts.items()]
    async with connected(server) as client:
        responses = await stream(client, *requests)
    for name, text in texts.items():
        assert np.array_equal(samples_of(responses, request_id=name), await http_samples(server, text))


async def test_inputs_and_parameters_are_fields_of_a_speech_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = ScriptedEngine(description=info(speakers=("ava", "Emma"), languages=("English", "German")))
    inputs = [tensor("voice", "BYTES", "emma"), tensor("seed", "INT64", 3), tensor("temperature", "FP32", 0.5)]
    parameters = {"language": "german", "max_new_tokens": 40, "non_streaming_mode": True, "sample_rate": 8000}
    async with listening_server(tmp_path, monkeypatch, engine, grpc={"port": 0}) as server, connected(server) as client:
        [*_, (last, _)] = await stream(client, request("Guten Tag.", *inputs, parameters=parameters))
    assert last.get_response().parameters["sample_rate"].int64_param == 8000
    received = engine.streams[0].request
    assert (received.text, received.speaker, received.language) == ("Guten Tag.", "Emma", "german")
    sampling = received.sampling
    assert (sampling.seed, sampling.temperature, sampling.max_new_tokens) == (3, 0.5, 40)
    assert received.text_layout == "full"


async def test_inputs_of_other_models_for_triton_clone_a_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = ScriptedEngine(description=info(tasks=("Base",), speakers=(), embedding_width=4, in_context=True))
    received: list[tuple[np.ndarray, int, str | None]] = []

    async def encode(samples: np.ndarray, rate: int, *, codes: bool, transcript: str | None = None) -> Voice:
        received.append((samples, rate, transcript))
        return Voice(np.ones(4, np.float32), np.zeros((20, 16), np.int64), transcript)

    monkeypatch.setattr(engine, "encode_reference", encode)
    recording = 0.5 * np.sin(np.arange(40_000) / 20).astype(np.float32)
    inputs = [
        tensor("target_text", "BYTES", TEXT, shape=(1, 1)),
        tensor("reference_text", "BYTES", "What I said in it.", shape=(1, 1)),
        tensor("reference_wav", "FP32", *recording, shape=(1, 40_000)),
        tensor("reference_wav_len", "INT32", 32_000, shape=(1, 1)),
    ]
    async with listening_server(tmp_path, monkeypatch, engine, grpc={"port": 0}) as server, connected(server) as client:
        responses = await stream(client, {"model_name": "model", "inputs": inputs})
    assert all(error is None for _, error in responses)
    [(samples, rate, transcript)] = received
    assert transcript == "What I said in it."
    assert len(samples) / rate == pytest.approx(2.0, abs=0.1)
    assert engine.streams[0].request.voice is not None


async def failure_of(call: Awaitable[Any]) -> tuple[str, str]:
    """The status and the message that a call ends with. The aio client does not convert the errors of streams."""
    try:
        await call
    except InferenceServerException as error:
        return error.status(), error.message()
    except grpc.aio.AioRpcError as error:
        return str(error.code()), error.details() or ""
    raise AssertionError("the call succeeded")


async def in_thread(work: Callable[[], Any]) -> Any:
    async with asyncio.timeout(TIMEOUT):
        return await asyncio.to_thread(work)


async def test_an_empty_final_response_follows_if_the_client_asks(server: ListeningServer) -> None:
    """With the client that has threads, and a callback for each response."""

    def infer() -> list[Any]:
        responses: list[Any] = []
        with triton.InferenceServerClient(address_of(server)) as client:
            client.start_stream(lambda result, error: responses.append((result, error)), headers=AUTHORIZED)
            client.async_stream_infer("model", request()["inputs"], enable_empty_final_response=True)
            client.stop_stream()
        return responses

    *audio, (final, error) = await in_thread(infer)
    assert error is None
    assert audio
    assert not final.get_response().outputs
    assert final.get_response().parameters["triton_final_response"].bool_param
    assert final.get_response().parameters["finish_reason"].string_param == "stop"


ERRORS: list[tuple[dict[str, Any], grpc.StatusCode, str]] = [
    (request(" "), grpc.StatusCode.INVALID_ARGUMENT, "invalid_value"),
    (request(TEXT, tensor("voice", "BYTES", "nobody")), grpc.StatusCode.NOT_FOUND, "voice_not_found"),
    (request(model_name="other"), grpc.StatusCode.NOT_FOUND, "model_not_found"),
    (request(model_version="7"), grpc.StatusCode.NOT_FOUND, "model_not_found"),
    (request(TEXT, tensor("sped", "FP32", 2.0)), grpc.StatusCode.INVALID_ARGUMENT, "unknown_parameter"),
    (request(parameters={"speed": 9.0}), grpc.StatusCode.INVALID_ARGUMENT, "invalid_value"),
    (request(parameters={"stream": True}), grpc.StatusCode.INVALID_ARGUMENT, "unknown_parameter"),
    (request(parameters={"input": "twice"}), grpc.StatusCode.INVALID_ARGUMENT, "invalid_value"),
    (request(TEXT, tensor("voice", "BYTES", "a", "b")), grpc.StatusCode.INVALID_ARGUMENT, "invalid_value"),
    (request(TEXT, tensor("input", "BYTES", "b")), grpc.StatusCode.INVALID_ARGUMENT, "invalid_value"),
    (request(b"\xff"), grpc.StatusCode.INVALID_ARGUMENT, "invalid_value"),
    (request(outputs=[triton.InferRequestedOutput("mel")]), grpc.StatusCode.INVALID_ARGUMENT, "invalid_value"),
    (
        request(TEXT, tensor("reference_wav", "FP32", 0.1), tensor("reference_wav_len", "INT32", 2)),
        grpc.StatusCode.INVALID_ARGUMENT,
        "invalid_value",
    ),
    (request(TEXT, tensor("reference_wav", "FP32", np.nan)), grpc.StatusCode.INVALID_ARGUMENT, "invalid_value"),
    ({"model_name": "model", "inputs": []}, grpc.StatusCode.INVALID_ARGUMENT, "missing_required_parameter"),
]


@pytest.mark.parametrize(("wrong", "status", "code"), ERRORS)
async def test_an_invalid_request_ends_with_a_status_or_an_error_in_the_stream(
    server: ListeningServer, wrong: dict[str, Any], status: grpc.StatusCode, code: str
) -> None:
    async with connected(server) as client:
        received, message = await failure_of(client.infer(**wrong, headers=AUTHORIZED))
        assert received == str(status)
        responses = await stream(client, wrong, request(request_id="good", outputs=PCM))
        assert [error.message() for _, error in responses if error is not None] == [message]
        assert len(samples_of(responses, request_id="good"))
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await stream(client, wrong, triton_grpc_error="true")
    assert (raised.value.code(), raised.value.details()) == (status, message)
    assert dict(raised.value.trailing_metadata() or ())["error-code"] == code


def raw_request(**fields: Any) -> service_pb2.ModelInferRequest:
    defaults: dict[str, Any] = {"name": "input", "datatype": "BYTES", "shape": [1]}
    described = service_pb2.ModelInferRequest.InferInputTensor(**{**defaults, **fields})
    return service_pb2.ModelInferRequest(model_name="model", inputs=[described])


@pytest.mark.parametrize(
    ("raw", "fields"),
    [
        ([b"\x05\0\0\0Hell"], {}),
        ([b"\x05\0\0"], {}),
        ([b""], {}),
        ([b"\x01\0\0\0a"], {"shape": [2]}),
        ([b"\x01\0\0\0a", b"\x01\0\0\0a"], {}),
        ([b"123"], {"name": "seed", "datatype": "INT64"}),
        ([b"1234"], {"datatype": "FP8"}),
        ([], {"parameters": {"shared_memory_region": service_pb2.InferParameter(string_param="region")}}),
    ],
    ids=["short", "length", "empty", "shape", "too many", "not whole", "type", "shared memory"],
)
async def test_malformed_tensors_are_refused(server: ListeningServer, raw: list[bytes], fields: dict[str, Any]) -> None:
    message = raw_request(**fields)
    message.raw_input_contents.extend(raw)
    async with grpc.aio.insecure_channel(address_of(server)) as channel:
        infer = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            request_serializer=service_pb2.ModelInferRequest.SerializeToString,
            response_deserializer=service_pb2.ModelInferResponse.FromString,
        )
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await infer(message, metadata=tuple(AUTHORIZED.items()), timeout=TIMEOUT)
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    trailing = dict(raised.value.trailing_metadata() or ())
    assert trailing["error-code"] in ("invalid_value", "not_supported")


async def test_contents_that_are_not_raw_are_read_too(server: ListeningServer) -> None:
    contents = service_pb2.InferTensorContents(bytes_contents=[TEXT.encode()])
    async with grpc.aio.insecure_channel(address_of(server)) as channel:
        infer = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            request_serializer=service_pb2.ModelInferRequest.SerializeToString,
            response_deserializer=service_pb2.ModelInferResponse.FromString,
        )
        await infer(raw_request(contents=contents), metadata=tuple(AUTHORIZED.items()), timeout=TIMEOUT)
    assert server.engine.streams[0].request.text == TEXT


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}, {"authorization": "the-key"}])
async def test_every_call_but_health_checks_needs_the_key(server: ListeningServer, headers: dict[str, str]) -> None:
    async with connected(server) as client:
        assert await client.is_server_live(headers=headers)
        await client.is_server_ready(headers=headers)
        calls = (
            client.get_server_metadata(headers=headers),
            client.get_model_metadata("model", headers=headers),
            client.get_model_config("model", headers=headers),
            client.is_model_ready("model", headers=headers),
            client.infer("model", request()["inputs"], headers=headers),
            anext(aiter(client.stream_infer(each(request()), headers=headers))),
        )
        for call in calls:
            assert (await failure_of(call))[0] == str(grpc.StatusCode.UNAUTHENTICATED)
    assert not server.engine.streams


@pytest.mark.parametrize("way", ["cancel", "unary", "disconnect", "threads"])
async def test_a_cancelled_call_frees_its_slot_at_once(server: ListeningServer, way: str) -> None:
    server.engine.scripts = [lambda text: Take(100, stalls_after=2)]
    left = {"outcome": "client_left", "task": "CustomVoice"}
    before = await server.metric("sonant_requests_total", **left)
    async with connected(server) as client:
        if way == "unary":
            call = asyncio.create_task(client.infer("model", request()["inputs"], headers=AUTHORIZED))
            while not server.engine.streams:
                await asyncio.sleep(0.005)
            call.cancel()
        elif way == "threads":
            await in_thread(lambda: cancel_after_first_response(address_of(server)))
        else:
            responses = client.stream_infer(each(request()), headers=AUTHORIZED)
            assert (await anext(aiter(responses)))[1] is None
            if way == "cancel":
                responses.cancel()
            else:
                await client.close()
    await server.until_cancelled()
    await server.until_metric(before + 1, "sonant_requests_total", **left)
    assert await server.metric("sonant_requests_running") == 0


async def test_a_response_that_is_sent_while_the_client_cancels_is_no_error(
    server: ListeningServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("server.triton.service.InferStream", WritesAfterCancellation)
    server.engine.scripts = [lambda text: Take(100, stalls_after=2)]
    left = {"outcome": "client_left", "task": "CustomVoice"}
    before = await server.metric("sonant_requests_total", **left)
    async with connected(server) as client:
        responses = client.stream_infer(each(request()), headers=AUTHORIZED)
        receiving = asyncio.ensure_future(anext(aiter(responses)))
        while not server.engine.streams:
            await asyncio.sleep(0.005)
        responses.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
    await server.until_metric(before + 1, "sonant_requests_total", **left)
    assert "unexpected error" not in caplog.text


class WritesAfterCancellation(InferStream):
    """Sends each response when its client has cancelled the call, as gRPC does when both happen at once."""

    def __init__(self, context: grpc.aio.ServicerContext, *others: Any) -> None:
        super().__init__(context, *others)
        self._context = self
        self._call = context

    async def write(self, response: Any) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await self._call.write(response)


async def test_a_client_that_does_not_read_loses_its_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ScriptedEngine([lambda text: Take(4000)])  # more than gRPC's windows, which grow
    settings: dict[str, Any] = {"grpc": {"port": 0}, "limits": {"stalled_seconds": 0.2}, "guards": "off"}
    async with listening_server(tmp_path, monkeypatch, engine, **settings) as server, connected(server) as client:
        responses = client.stream_infer(each(request()))
        await server.until_cancelled()
        responses.cancel()


def cancel_after_first_response(address: str) -> None:
    received = threading.Event()
    with triton.InferenceServerClient(address) as client:
        client.start_stream(lambda result, error: received.set(), headers=AUTHORIZED)
        client.async_stream_infer("model", request()["inputs"])
        assert received.wait(TIMEOUT)
        client.stop_stream(cancel_requests=True)


async def test_a_full_queue_refuses_the_next_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"max_running": 1, "max_waiting": 0, "client_share": 1.0}
    engine = ScriptedEngine([lambda text: Take(100, stalls_after=1)])
    async with listening_server(tmp_path, monkeypatch, engine, grpc={"port": 0}, limits=limits) as server:
        body = {"input": TEXT, "response_format": "pcm"}
        async with server.client.stream("POST", SPEECH, json=body) as response, connected(server) as client:
            assert response.status_code == 200
            status, _ = await failure_of(client.infer("model", request()["inputs"]))
    assert status == str(grpc.StatusCode.RESOURCE_EXHAUSTED)


async def test_an_idle_stream_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never() -> AsyncIterator[dict[str, Any]]:
        await asyncio.Event().wait()
        yield {}

    settings: dict[str, Any] = {"grpc": {"port": 0}, "limits": {"live_idle_seconds": 0.1}}
    async with listening_server(tmp_path, monkeypatch, **settings) as server, connected(server) as client:
        assert "live_idle_seconds" in (await failure_of(anext(aiter(client.stream_infer(never())))))[1]


async def test_calls_in_flight_end_with_a_status_when_the_server_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = ScriptedEngine([lambda text: Take(100, stalls_after=1)])
    async with listening_server(tmp_path, monkeypatch, engine, grpc={"port": 0}) as server, connected(server) as client:
        responses = aiter(client.stream_infer(each(request())))
        assert (await anext(responses))[1] is None
        server.server.should_exit = True
        assert (await failure_of(anext(responses)))[0] == str(grpc.StatusCode.UNAVAILABLE)
    assert engine.streams[0].cancelled


async def test_other_machines_are_allowed_as_for_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exposed = {"port": 0, "host": "0.0.0.0"}
    with pytest.raises(SettingsError, match=r"grpc\.host"):
        async with listening_server(tmp_path, monkeypatch, grpc=exposed):
            pass
    async with listening_server(tmp_path, monkeypatch, grpc=exposed, **KEYS) as server, connected(server) as client:
        assert await client.is_server_live()


async def test_a_port_in_use_is_an_error(
    server: ListeningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert server.sockets.grpc is not None
    port = server.sockets.grpc.getsockname()[1]
    with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
        async with listening_server(tmp_path, monkeypatch, grpc={"port": port}):
            pass


async def test_a_server_whose_keys_are_all_revoked_refuses_every_call() -> None:
    class Context:
        def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
            return (("authorization", "Bearer the-key"),)

    keys = Keys([plain_key("the-key")])
    assert caller_of(cast(Any, Context()), keys, "127.0.0.1").owner == key_id("the-key")
    keys.replace([])
    with pytest.raises(ApiError) as refused:
        caller_of(cast(Any, Context()), keys, "127.0.0.1")
    assert refused.value.status == 401


async def test_a_client_that_does_not_read_an_error_loses_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        responses = Responses("model", "1", ())

        def __init__(self, *_: object, **__: object) -> None: ...

        async def run(self, *_: object) -> None:
            raise ApiError("the request is invalid")

    class Context:
        async def write(self, response: object) -> None:
            await asyncio.Event().wait()

    async def requests() -> AsyncIterator[service_pb2.ModelInferRequest]:
        yield service_pb2.ModelInferRequest()

    monkeypatch.setattr("server.triton.stream.Inference", Failing)
    limits = SimpleNamespace(stalled_seconds=0.01, live_idle_seconds=60)
    current = SimpleNamespace(services=SimpleNamespace(settings=SimpleNamespace(limits=limits)))
    stream = InferStream(cast(Any, Context()), Caller("c", None, None, {}), cast(Any, current), lambda: False)
    async with asyncio.timeout(TIMEOUT):
        with pytest.raises(ClientDisconnected):
            await stream.run(requests())


async def test_a_value_that_its_type_cannot_hold_is_refused() -> None:
    sent = service_pb2.ModelInferRequest()
    described = sent.inputs.add(name="seed", datatype="INT8", shape=[1])
    described.contents.int_contents.append(300)
    with pytest.raises(ApiError, match="INT8 cannot hold"):
        input_tensors(sent)


async def test_the_message_of_a_caller_without_a_key_is_not_read(server: ListeningServer) -> None:
    """A message that is too large has another status once it is read."""
    too_large = bytes(17 * 1024 * 1024)
    async with asyncio.timeout(TIMEOUT), grpc.aio.insecure_channel(address_of(server)) as channel:
        for status, metadata in (("UNAUTHENTICATED", ()), ("RESOURCE_EXHAUSTED", (*AUTHORIZED.items(),))):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")(too_large, metadata=metadata)
            assert refused.value.code().name == status
