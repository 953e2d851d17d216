"""The load client against a server whose responses the test controls."""

from __future__ import annotations

import asyncio
import ssl

import pytest
import trustme

from server.bench.client import Client, speech_address
from server.bench.run import run
from server.bench.trace import Trace
from server.bench.workload import Closed, Open, RealtimeClients, Workload
from tests.server.bench.stand_in import FRAME, Answer, ReceivedRequest, silence, sound, stand_in_server

WORKLOAD = Workload(("Hello there.",))


def client_of(url: str, key: str | None = None, timeout: float = 30.0) -> Client:
    return Client(url, key, timeout=timeout, rate=24_000, audible=0.01)


async def trace_of(answer: Answer, timeout: float = 30.0) -> Trace:
    """The trace of one request handled with ``answer``."""
    async with stand_in_server(answer) as server:
        done = await run(Closed(1, requests=1), client_of(server.url, timeout=timeout), WORKLOAD)
    return done.traces[0]


async def test_records_every_piece_when_it_arrives() -> None:
    released = asyncio.Event()

    async def answer(request: ReceivedRequest) -> None:
        await request.begin()
        await request.piece(silence(FRAME))
        await released.wait()
        await request.piece(silence(10) + sound(FRAME))
        await request.piece(b"")

    async with stand_in_server(answer) as server:
        trace = Trace(0, 0.0, 0.0)
        request = asyncio.create_task(client_of(server.url).prepare(WORKLOAD.body(0))(trace))
        while not trace.pieces:
            await asyncio.sleep(0)
        assert trace.connected < trace.answered <= trace.pieces[0][0]
        assert trace.ended == 0.0
        released.set()
        await request
    assert [size for _, size in trace.pieces] == [2 * FRAME, 2 * FRAME + 20]
    assert trace.pieces[0][0] < trace.pieces[1][0] <= trace.ended
    assert (trace.outcome, trace.onset, trace.rate) == ("ok", FRAME + 10, 24_000)


async def test_uses_the_sample_rate_of_the_server() -> None:
    async def answer(request: ReceivedRequest) -> None:
        await request.begin(X_Sample_Rate="16000")
        await request.piece(sound(FRAME))
        await request.piece(b"")

    assert (await trace_of(answer)).rate == 16_000


async def test_reads_bodies_with_and_without_a_length() -> None:
    data = sound(FRAME)

    async def sized(request: ReceivedRequest) -> None:
        await request.begin(Transfer_Encoding="", Content_Length=str(len(data)))
        await request.send(data)

    async def until_closed(request: ReceivedRequest) -> None:
        await request.begin(Transfer_Encoding="", Connection="close")
        await request.send(data)

    for answer in (sized, until_closed):
        trace = await trace_of(answer)
        assert (trace.outcome, sum(size for _, size in trace.pieces)) == ("ok", len(data))


async def test_open_loop_arrivals_do_not_wait_for_responses() -> None:
    """No request is answered before all have arrived: a client that waited for a response would never finish."""

    async def answer(request: ReceivedRequest) -> None:
        await server.until(lambda: server.max_in_flight == 20)
        await request.speak(sound(FRAME))

    async with stand_in_server(answer) as server:
        load = Open(500, requests=20)
        done = await run(load, client_of(server.url), WORKLOAD)
    assert [trace.outcome for trace in done.traces] == ["ok"] * 20
    first = done.traces[0].intended
    assert [trace.intended - first for trace in done.traces] == pytest.approx(list(load.arrivals()))
    assert all(trace.sent >= trace.intended for trace in done.traces)


async def test_a_closed_loop_keeps_the_given_concurrency() -> None:
    async def answer(request: ReceivedRequest) -> None:
        await server.until(lambda: server.in_flight == 4 or len(server.requests) == 12)
        await request.speak(sound(FRAME))

    async with stand_in_server(answer) as server:
        done = await run(Closed(4, requests=12), client_of(server.url), WORKLOAD)
    assert [trace.outcome for trace in done.traces] == ["ok"] * 12
    assert server.max_in_flight <= 4
    assert [trace.number for trace in done.traces] == list(range(12))
    assert {request.body["seed"] for request in server.requests} == set(range(1, 13))


async def test_sends_no_request_after_the_end_of_the_load() -> None:
    async with stand_in_server(lambda request: request.speak(sound(FRAME))) as server:
        done = await run(Closed(2, seconds=0.2), client_of(server.url), WORKLOAD)
    times = [trace.intended for trace in done.traces]
    assert max(times) - min(times) < 0.2
    assert {trace.outcome for trace in done.traces} == {"ok"}


async def test_sends_the_key() -> None:
    async with stand_in_server(lambda request: request.speak(sound(FRAME))) as server:
        await run(Closed(1, requests=1), client_of(server.url, "some-secret"), WORKLOAD)
        await run(Closed(1, requests=1), client_of(server.url), WORKLOAD)
    assert "authorization: bearer some-secret" in server.requests[0].head
    assert "authorization" not in server.requests[1].head


async def refused(request: ReceivedRequest) -> None:
    body = b'{"error": {"message": "The server is full.", "type": "rate_limit_error"}}'
    await request.begin("429 Too Many Requests", Content_Type="application/json")
    await request.piece(body)
    await request.piece(b"")


async def broken(request: ReceivedRequest) -> None:
    await request.begin("502 Bad Gateway", Content_Type="text/html")
    await request.piece(b"<h1>Bad\n gateway</h1>")
    await request.piece(b"")


async def close_silently(request: ReceivedRequest) -> None:
    """Closes the connection without a response."""


async def cut_short(request: ReceivedRequest) -> None:
    await request.begin()
    await request.piece(sound(FRAME))


async def nonsense(request: ReceivedRequest) -> None:
    await request.send(b"220 mail.example.com ESMTP\r\n\r\n")


async def events(request: ReceivedRequest) -> None:
    await request.begin(Content_Type="text/event-stream; charset=utf-8")
    await request.piece(b"data: {}\n\n")
    await request.piece(b"")


async def stereo(request: ReceivedRequest) -> None:
    head = b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\x01\0\x02\0\xc0\x5d\0\0\0\x77\x01\0\x04\0\x10\0data\xff\xff\xff\xff"
    await request.speak(head + sound(FRAME))


@pytest.mark.parametrize(
    ("answer", "outcome", "detail"),
    [
        (refused, "429", "The server is full."),
        (broken, "502", "<h1>Bad gateway</h1>"),
        (close_silently, "no answer", "closed the connection"),
        (cut_short, "cut short", "closed the connection"),
        (nonsense, "no answer", "illegal"),
        (events, "not understood", "text/event-stream"),
        (stereo, "not understood", "2 channels"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_failures_are_classified(answer: Answer, outcome: str, detail: str) -> None:
    trace = await trace_of(answer)
    assert trace.outcome == outcome, trace.detail
    assert detail in trace.detail
    assert trace.ended > trace.sent


async def test_an_endless_response_times_out() -> None:
    disconnected = asyncio.Event()

    async def answer(request: ReceivedRequest) -> None:
        await request.begin()
        try:
            while True:
                await request.piece(sound(FRAME))
        except ConnectionError:
            disconnected.set()
            raise

    async with stand_in_server(answer) as server:
        done = await run(Closed(1, requests=1), client_of(server.url, timeout=0.3), WORKLOAD)
        await asyncio.wait_for(disconnected.wait(), 30)
    assert (done.traces[0].outcome, done.traces[0].detail) == ("timeout", "not complete after 0.3 s")


async def test_an_unreachable_server_is_an_outcome() -> None:
    async with stand_in_server(close_silently) as server:
        pass
    client = client_of(server.url)
    done = await run(Closed(1, requests=2), client, WORKLOAD)
    assert [trace.outcome for trace in done.traces] == ["no connection"] * 2
    with pytest.raises(OSError, match="no connection to"):
        await client.reach()


async def test_verifies_https_certificates(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    authority = trustme.CA()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(tls)
    async with stand_in_server(lambda request: request.speak(sound(FRAME)), tls) as server:
        untrusting = client_of(server.url)
        authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
        trusting = client_of(server.url)
        await trusting.reach()
        outcomes = [(await run(Closed(1, requests=1), client, WORKLOAD)).traces[0] for client in (trusting, untrusting)]
    assert [trace.outcome for trace in outcomes] == ["ok", "no connection"]
    assert "certificate" in outcomes[1].detail.lower()


@pytest.mark.parametrize(
    ("server", "address"),
    [
        ("http://localhost:8000", "http://localhost:8000/v1/audio/speech"),
        ("https://example.com/", "https://example.com/v1/audio/speech"),
        ("http://[::1]:8091/v1", "http://[::1]:8091/v1/audio/speech"),
        ("http://a/tts/v1/", "http://a/tts/v1/audio/speech"),
        ("http://a/speak?x=1", "http://a/speak?x=1"),
    ],
)
def test_accepts_a_host_a_base_url_or_the_full_url(server: str, address: str) -> None:
    assert speech_address(server) == address


@pytest.mark.parametrize("server", ["localhost:8000", "ftp://a", "http://", "http://a:b", "http://ü"])
def test_refuses_an_invalid_address(server: str) -> None:
    with pytest.raises(ValueError, match=server.replace("[", r"\[")):
        speech_address(server)


async def test_real_time_clients_send_the_next_request_after_playback() -> None:
    async def answer(request: ReceivedRequest) -> None:
        await request.speak(sound(FRAME), sound(FRAME))

    async with stand_in_server(answer) as server:
        done = await run(RealtimeClients(2, requests=6, spread=0.1), client_of(server.url), WORKLOAD)
    assert [trace.outcome for trace in done.traces] == ["ok"] * 6
    starts = sorted(trace.pieces[0][0] for trace in done.traces)
    duration = 2 * FRAME / 24_000
    for early, late in zip(starts, starts[2:], strict=False):
        assert late >= early + duration - 0.001, "with two clients, the third request waits for the first playback"


async def test_refused_real_time_clients_do_not_retry_at_once() -> None:
    async def answer(request: ReceivedRequest) -> None:
        await request.begin("429 Too Many Requests", Transfer_Encoding="", Content_Length="0")

    async with stand_in_server(answer) as server:
        done = await run(RealtimeClients(3, seconds=0.5, spread=0.1), client_of(server.url), WORKLOAD)
    assert [trace.outcome for trace in done.traces] == ["429"] * 3
