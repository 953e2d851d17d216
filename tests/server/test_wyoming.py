"""The Wyoming listener, with the client of the ``wyoming`` package."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from wyoming.audio import AudioChunk
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.event import Event, Eventable
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong
from wyoming.tts import Synthesize, SynthesizeChunk, SynthesizeStart, SynthesizeStop, SynthesizeVoice

from engine.protocol.speech_profile import SpeechProfile
from server.settings import SettingsError
from tests.server.scripted_listeners import TIMEOUT, ListeningServer, listening_server
from tests.server.serving import SPEECH
from tests.support.scripted_engine import PACE, ScriptedEngine, Take, good, info

TEXT = "The kitchen light is on, and the front door is closed."


@dataclass
class Answer:
    """The events of an answer, in order, and its audio."""

    types: list[str]
    audio: bytes
    error: Error | None = None


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ListeningServer]:
    with pytest.MonkeyPatch.context() as patch:
        async with listening_server(tmp_path_factory.mktemp("voices"), patch, wyoming={"port": 0}) as server:
            yield server


@pytest.fixture
def server(shared: ListeningServer) -> ListeningServer:
    """The shared server, whose engine has received nothing."""
    shared.engine.streams.clear()
    return shared


def port_of(server: ListeningServer) -> int:
    assert server.sockets.wyoming is not None
    port: int = server.sockets.wyoming.getsockname()[1]
    return port


@asynccontextmanager
async def connected(server: ListeningServer) -> AsyncIterator[AsyncTcpClient]:
    async with asyncio.timeout(TIMEOUT), AsyncTcpClient("127.0.0.1", port_of(server)) as client:
        yield client


async def send(client: AsyncTcpClient, *events: Eventable | Event) -> None:
    for event in events:
        await client.write_event(event if isinstance(event, Event) else event.event())


async def receive(client: AsyncTcpClient, last: str = "audio-stop") -> Answer:
    """The events up to the first one of type ``last``, or up to an error and the end of the connection."""
    answer = Answer([], b"")
    while (event := await client.read_event()) is not None:
        answer.types.append(event.type)
        if AudioChunk.is_type(event.type):
            chunk = AudioChunk.from_event(event)
            assert (chunk.rate, chunk.width, chunk.channels) == (24_000, 2, 1)
            answer.audio += chunk.audio
        elif Error.is_type(event.type):
            answer.error = Error.from_event(event)
        if event.type == last:
            break
    return answer


async def http_audio(server: ListeningServer, text: str = TEXT) -> bytes:
    response = await server.client.post(SPEECH, json={"input": text, "response_format": "pcm"})
    return response.raise_for_status().content


async def error_of(server: ListeningServer, *events: Eventable | Event) -> str | None:
    """The code of the error that ends a connection after ``events``."""
    async with connected(server) as client:
        await send(client, *events)
        answer = await receive(client)
    assert answer.types[-1] == "error"
    assert answer.error is not None
    assert answer.error.text
    return answer.error.code


async def test_speaks_a_text_with_the_audio_of_http(server: ListeningServer) -> None:
    async with connected(server) as client:
        await send(client, Synthesize(TEXT))
        answer = await receive(client)
    assert answer.types[:2] == ["audio-start", "audio-chunk"]
    assert answer.types[-1] == "audio-stop"
    assert len(answer.types) > 4  # streamed
    assert answer.audio == await http_audio(server)
    first, second = (stream.request for stream in server.engine.streams)
    assert (first.text, first.speaker) == (second.text, second.speaker) == (TEXT, "ava")


async def test_a_connection_serves_several_requests(server: ListeningServer) -> None:
    async with connected(server) as client:
        await send(client, Ping("a"), Synthesize("One."), Event("unknown-event"), Synthesize("Two, three."))
        assert await client.read_event() == Pong("a").event()
        assert (await receive(client)).audio == await http_audio(server, "One.")
        assert (await receive(client)).audio == await http_audio(server, "Two, three.")


async def test_info_lists_the_voices_with_language_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = SpeechProfile(characters_per_second=PACE)
    description = info(
        speakers=("ava", "Emma"),
        languages=("English", "German"),
        profile=profile,
        tasks=("CustomVoice", "Base"),
        embedding_width=4,
    )
    engine = ScriptedEngine(description=description)
    async with listening_server(tmp_path, monkeypatch, engine, wyoming={"port": 0}) as server:
        for name, width in (("anna", 4), ("other", 3)):
            await store_voice(tmp_path, name, width)
        async with connected(server) as client:
            await send(client, Describe())
            event = await client.read_event()
    assert event is not None
    [program] = Info.from_event(event).tts
    assert program.supports_synthesize_streaming
    assert [voice.name for voice in program.voices] == ["ava", "Emma", "anna"]
    assert all(voice.installed and voice.languages == ["en", "de"] for voice in program.voices)


async def test_a_client_selects_one_of_several_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines = {name: ScriptedEngine(description=info(speakers=(name,))) for name in ("small", "large")}
    models = [{"name": name, "engine": {"model": f"org/{name}"}} for name in engines]
    async with listening_server(tmp_path, monkeypatch, engines, wyoming={"port": 0}, models=models) as server:
        async with connected(server) as client:
            await send(client, Describe(), Synthesize(TEXT), Event("select-program", {"name": "large"}))
            event = await client.read_event()
            assert event is not None
            assert [program.name for program in Info.from_event(event).tts] == ["small", "large"]
            assert (await receive(client)).audio
            await send(client, Synthesize(TEXT), SynthesizeStart(), SynthesizeChunk(TEXT), SynthesizeStop())
            assert (await receive(client)).audio
            assert (await receive(client, "synthesize-stopped")).audio
        assert await error_of(server, Event("select-program", {"name": "other"})) == "model_not_found"
    assert [len(engine.streams) for engine in engines.values()] == [1, 2]


async def store_voice(folder: Path, name: str, width: int) -> None:
    from server.voices.config import VoiceSettings
    from server.voices.store import VoiceStore
    from server.voices.stored_voice import StoredVoice

    voice = StoredVoice(
        name=name, origin="blend", created_at=1, model="m", embedding=np.ones(width, np.float32), shared=True
    )
    await asyncio.to_thread(VoiceStore(VoiceSettings(folder=folder)).add, voice)


@pytest.mark.parametrize(
    ("voice", "speaker", "language"),
    [
        (SynthesizeVoice(name="Emma"), "Emma", "auto"),
        (SynthesizeVoice(language="en-US"), "ava", "english"),
        (SynthesizeVoice(language="English"), "ava", "english"),
        (SynthesizeVoice(name="alloy"), "ava", "auto"),
    ],
)
async def test_voice_and_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, voice: SynthesizeVoice, speaker: str, language: str
) -> None:
    engine = ScriptedEngine(description=info(speakers=("ava", "Emma")))
    running = listening_server(tmp_path, monkeypatch, engine, wyoming={"port": 0})
    async with running as server, connected(server) as client:
        await send(client, Synthesize(TEXT, voice=voice))
        assert (await receive(client)).error is None
        await send(client, SynthesizeStart(voice=voice), SynthesizeChunk(TEXT), SynthesizeStop())
        assert (await receive(client, "synthesize-stopped")).error is None
    assert {(each.request.speaker, each.request.language) for each in engine.streams} == {(speaker, language)}


async def test_streaming_text_as_home_assistant_sends_it(server: ListeningServer) -> None:
    """Also the whole text once more before the end, which is not spoken again."""
    chunks = [TEXT[start : start + 5] for start in range(0, len(TEXT), 5)]
    server.engine.scripts = [lambda text: good(TEXT)] * 2
    before = await server.metric("sonant_live_sessions_total", outcome="completed")
    async with connected(server) as client:
        for _ in range(2):
            await send(client, SynthesizeStart(), *map(SynthesizeChunk, chunks), Synthesize(TEXT), SynthesizeStop())
            answer = await receive(client, "synthesize-stopped")
            assert answer.types[0] == "audio-start"
            assert answer.types[-2:] == ["audio-stop", "synthesize-stopped"]
            assert answer.audio
    assert [stream.request.text + stream.appended for stream in server.engine.streams] == [TEXT, TEXT]
    assert await server.metric("sonant_live_sessions_total", outcome="completed") == before + 2


async def test_the_engine_gets_live_text_before_it_is_complete(server: ListeningServer) -> None:
    server.engine.scripts = [lambda text: good(TEXT)]
    async with connected(server) as client:
        await send(client, SynthesizeStart(), SynthesizeChunk(TEXT[:40]))
        while not server.engine.streams:
            await asyncio.sleep(0.005)
        assert server.engine.streams[0].request.live
        await send(client, SynthesizeChunk(TEXT[40:]), SynthesizeStop())
        assert (await receive(client, "synthesize-stopped")).audio


@pytest.mark.parametrize(
    ("events", "code"),
    [
        ([Synthesize(TEXT, voice=SynthesizeVoice(name="nobody"))], "voice_not_found"),
        ([Synthesize(TEXT, voice=SynthesizeVoice(name="ava", speaker="2"))], "invalid_value"),
        ([Synthesize(" ")], "invalid_value"),
        ([Synthesize("a" * 300_000)], "string_above_max_length"),
        ([Event("synthesize", {"text": TEXT, "text_format": "markdown"})], "invalid_value"),
        ([Event("synthesize")], "invalid_value"),
        ([Event("synthesize", {"text": TEXT, "voice": "ava"})], "invalid_value"),
        ([Event("synthesize", {"text": TEXT, "voice": {"name": 5}})], "invalid_value"),
        ([SynthesizeStart(), SynthesizeChunk(" "), SynthesizeStop()], "invalid_value"),
        ([SynthesizeStart(), SynthesizeStart()], "invalid_value"),
        ([SynthesizeStart(SynthesizeVoice(name="nobody")), SynthesizeChunk(TEXT), SynthesizeStop()], "voice_not_found"),
    ],
)
async def test_an_invalid_request_ends_with_an_error(
    server: ListeningServer, events: list[Eventable | Event], code: str
) -> None:
    assert await error_of(server, *events) == code
    assert not server.engine.streams


@pytest.mark.parametrize(
    "data",
    [
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n\r\n"
        b'{"type": "synthesize", "data": {"text": "Hello."}}\n',
        b"[]\n",
        b'{"type": 5}\n',
        b'{"type": "ping", "data": [1]}\n',
        b'{"type": "ping", "data_length": -1}\n',
        b'{"type": "ping", "data_length": "5"}\n',
        b'{"type": "ping", "data_length": 2}\n[]',
        b" " * 70_000,
    ],
    ids=["HTTP request of a web page", "list", "type", "data", "negative", "text", "data list", "long line"],
)
async def test_bytes_that_are_no_event_end_the_connection(server: ListeningServer, data: bytes) -> None:
    assert await raw_error(server, data) == "invalid_event"
    assert not server.engine.streams


async def test_refuses_large_events_before_it_reads_them(server: ListeningServer) -> None:
    assert await raw_error(server, b'{"type": "ping", "payload_length": 3000000000}\n') == "request_too_large"


async def raw_error(server: ListeningServer, data: bytes) -> str:
    """The code of the error that answers ``data``; asserts that the server then closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    writer.write(data)
    async with asyncio.timeout(TIMEOUT):
        header, _, rest = (await reader.read()).partition(b"\n")
    writer.close()
    assert json.loads(header)["type"] == "error"
    code: str = json.loads(rest)["code"]
    return code


@pytest.mark.parametrize("live", [False, True])
async def test_a_client_that_disconnects_frees_its_slot(server: ListeningServer, live: bool) -> None:
    server.engine.scripts = [lambda text: Take(100, stalls_after=1)]
    left = {"outcome": "client_left", "task": "CustomVoice"}
    before = await server.metric("sonant_requests_total", **left)
    async with connected(server) as client:
        if live:
            await send(client, SynthesizeStart(), SynthesizeChunk(TEXT), SynthesizeStop())
        else:
            await send(client, Synthesize(TEXT))
        await client.read_event()
    await server.until_cancelled()
    await server.until_metric(before + 1, "sonant_requests_total", **left)
    assert await server.metric("sonant_requests_running") == 0


async def test_a_client_that_does_not_read_loses_its_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ScriptedEngine([lambda text: Take(1000)])
    settings: dict[str, Any] = {"wyoming": {"port": 0}, "limits": {"stalled_seconds": 0.2}, "guards": "off"}
    async with listening_server(tmp_path, monkeypatch, engine, **settings) as server:
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", port_of(server)))
            connection.sendall(b'{"type": "synthesize", "data": {"text": "Hello there."}}\n')
            await server.until_cancelled()


async def test_waits_in_the_queue_of_http_and_is_refused_when_it_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"max_running": 1, "max_waiting": 1, "client_share": 1.0}
    engine = ScriptedEngine([lambda text: Take(100, stalls_after=1)])
    async with listening_server(tmp_path, monkeypatch, engine, wyoming={"port": 0}, limits=limits) as server:
        body = {"input": TEXT, "response_format": "pcm"}
        async with connected(server) as waiting:
            async with server.client.stream("POST", SPEECH, json=body) as response:
                assert response.status_code == 200
                await send(waiting, Synthesize(TEXT))
                await server.until_metric(1, "sonant_requests_waiting")
                assert await error_of(server, Synthesize(TEXT)) == "rate_limit_exceeded"
            assert (await receive(waiting)).audio


async def test_an_incomplete_event_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"request_seconds": 0.1, "live_idle_seconds": 0.1}
    async with listening_server(tmp_path, monkeypatch, wyoming={"port": 0}, limits=limits) as server:
        assert await raw_error(server, b'{"type": "ping", "data_length": 9}\n') == "request_timeout"
        assert await error_of(server, SynthesizeStart(), SynthesizeChunk("Hello")) == "session_idle"


async def test_an_idle_connection_makes_room_for_a_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ScriptedEngine([lambda text: Take(100, stalls_after=1)] * 16)
    limits = {"max_connections": 16, "max_running": 20}
    async with listening_server(tmp_path, monkeypatch, engine, wyoming={"port": 0}, limits=limits) as server:
        clients = [AsyncTcpClient("127.0.0.1", port_of(server)) for _ in range(17)]
        for client in clients:
            await client.connect()
            await send(client, Ping())
            assert await client.read_event() is not None
        assert await clients[0].read_event() is None
        for client in clients[1:]:
            await send(client, Synthesize(TEXT))
            assert await client.read_event() is not None
        assert await error_of(server) == "server_busy"
        for client in clients:
            await client.disconnect()


async def test_requests_in_flight_end_with_an_error_when_the_server_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = ScriptedEngine([lambda text: Take(100, stalls_after=1)])
    running = listening_server(tmp_path, monkeypatch, engine, wyoming={"port": 0})
    async with running as server, connected(server) as speaking, connected(server) as idle:
        await send(idle, Ping())
        await idle.read_event()
        await send(speaking, Synthesize(TEXT))
        assert await speaking.read_event() is not None
        server.server.should_exit = True
        for client in (speaking, idle):
            answer = await receive(client)
            assert answer.error is not None
            assert answer.error.code == "stopped"
    assert engine.streams[0].cancelled


@pytest.mark.parametrize("keys", [{}, {"api_key": "secret"}])
async def test_other_machines_are_allowed_only_explicitly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: dict[str, str]
) -> None:
    exposed = {"port": 0, "host": "0.0.0.0"}
    with pytest.raises(SettingsError, match=r"wyoming\.allow_unauthenticated"):
        async with listening_server(tmp_path, monkeypatch, wyoming=exposed, allow_unauthenticated=True, **keys):
            pass
    allowed = {**exposed, "allow_unauthenticated": True}
    async with listening_server(tmp_path, monkeypatch, wyoming=allowed, **keys) as server, connected(server) as client:
        await send(client, Synthesize(TEXT))
        assert (await receive(client)).audio
