"""The listeners beside HTTP of a ``sonant serve`` process."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import numpy as np
import pytest
from tritonclient import grpc as triton
from tritonclient.grpc import aio as triton_aio
from wyoming.client import AsyncTcpClient
from wyoming.event import Event
from wyoming.tts import Synthesize

from server.listeners.opening import open_sockets
from server.settings import SettingsError, load_settings
from tests.server.serving import SPEECH, TIMEOUT, ScriptedServing, speech, write_config


async def test_both_listeners_speak_and_drain(tmp_path: Path) -> None:
    with ScriptedServing(write_config(tmp_path, tmp_path), "--grpc", "0", "--wyoming", "0").ready() as serving:
        address = serving.wait_for(r"gRPC clients use grpc://(\S+)").group(1)
        port = int(serving.wait_for(r"Wyoming clients use tcp://127\.0\.0\.1:(\d+)").group(1))
        with serving.client() as client:
            expected = client.post(SPEECH, json=speech()).content
        async with asyncio.timeout(TIMEOUT), AsyncTcpClient("127.0.0.1", port) as wyoming:
            assert await grpc_audio(address) == expected
            await wyoming.write_event(Synthesize("Hello there, this is a request in flight.").event())
            assert (await next_event(wyoming)).type == "audio-start"
            serving.process.terminate()
            while (event := await next_event(wyoming)).type == "audio-chunk":
                pass
            assert event.type == "audio-stop"
        assert await asyncio.to_thread(serving.process.wait, TIMEOUT) == 0
        serving.wait_for(r"GRPC 'ModelStreamInfer' .*status=200")
        serving.wait_for(r"WYOMING 'synthesize' .*status=200")


async def next_event(client: AsyncTcpClient) -> Event:
    event = await client.read_event()
    assert event is not None
    return event


async def grpc_audio(address: str) -> bytes:
    """The 16-bit samples of the same request as ``speech()``."""
    text = triton.InferInput("input", [1], "BYTES")
    text.set_data_from_numpy(np.array(["Hello there."], object))

    async def requests():
        yield {
            "model_name": "pocket",
            "inputs": [text],
            "outputs": [triton.InferRequestedOutput("pcm")],
            "parameters": {"seed": 7, "max_new_tokens": 24},
        }

    async with triton_aio.InferenceServerClient(address) as client:
        assert await client.is_model_ready("pocket")
        return b"".join([result.as_numpy("pcm").tobytes() async for result, _ in client.stream_infer(requests())])


@pytest.mark.parametrize(("listener", "module"), [("grpc", "tritonclient"), ("wyoming", "wyoming")])
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, listener: str, module: str) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path_importer_cache", {})
    monkeypatch.setattr(sys, "path", [])
    settings = load_settings(flags={"engine": {"model": "org/model"}, "port": 0, listener: {"port": 0}})
    with pytest.raises(SettingsError, match=rf"sonant\[{listener}\]"):
        open_sockets(settings, protected=False)
