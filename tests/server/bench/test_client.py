"""The load client against a server whose every piece the test sends."""

from __future__ import annotations

import asyncio
import ssl

import pytest
import trustme

from server.bench.client import Client, speech_address
from server.bench.run import run
from server.bench.trace import Trace
from server.bench.workload import Closed, Open, RealtimeClients, Workload
from tests.server.bench.stand_in import FRAME, Answer, Asked, silence, sound, standing_in

ASKING = Workload(("Hello there.",))


def client_of(url: str, key: str | None = None, timeout: float = 30.0) -> Client:
    return Client(url, key, timeout=timeout, rate=24_000, audible=0.01)


async def asked(answer: Answer, timeout: float = 30.0) -> Trace:
    """One request that is answered so."""
    async with standing_in(answer) as server:
        done = await run(Closed(1, requests=1), client_of(server.url, timeout=timeout), ASKING)
    return done.traces[0]


async def test_everything_that_comes_is_recorded_as_it_comes() -> None:
    heard = asyncio.Event()

    async def answer(request: Asked) -> None:
        await request.begin()
        await request.piece(silence(FRAME))
        await heard.wait()
        await request.piece(silence(10) + sound(FRAME))
        await request.piece(b"")

    async with standing_in(answer) as server:
        trace = Trace(0, 0.0, 0.0)
        listening = asyncio.create_task(client_of(server.url).send(ASKING.body(0), trace))
        while not trace.pieces:
            await asyncio.sleep(0)
        assert trace.connected < trace.answered <= trace.pieces[0][0]
        assert trace.ended == 0.0
        heard.set()
        await listening
    assert [size for _, size in trace.pieces] == [2 * FRAME, 2 * FRAME + 20]
    assert trace.pieces[0][0] < trace.pieces[1][0] <= trace.ended
    assert (trace.outcome, trace.onset, trace.rate) == ("ok", FRAME + 10, 24_000)


async def test_the_server_may_tell_its_rate() -> None:
    async def answer(request: Asked) -> None:
        await request.begin(X_Sample_Rate="16000")
        await request.piece(sound(FRAME))
        await request.piece(b"")

    assert (await asked(answer)).rate == 16_000


async def test_bodies_with_a_length_and_bodies_without() -> None:
    data = sound(FRAME)

    async def sized(request: Asked) -> None:
        await request.begin(Transfer_Encoding="", Content_Length=str(len(data)))
        await request.send(data)

    async def until_closed(request: Asked) -> None:
        await request.begin(Transfer_Encoding="", Connection="close")
        await request.send(data)

    for answer in (sized, until_closed):
        trace = await asked(answer)
        assert (trace.outcome, sum(size for _, size in trace.pieces)) == ("ok", len(data))


async def test_arrivals_heed_no_answer() -> None:
    """Nobody is answered before everybody has asked: a client that waited for one answer would wait for ever."""

    async def answer(request: Asked) -> None:
        await server.until(lambda: server.most == 20)
        await request.speak(sound(FRAME))

    async with standing_in(answer) as server:
        load = Open(500, requests=20)
        done = await run(load, client_of(server.url), ASKING)
    assert [trace.outcome for trace in done.traces] == ["ok"] * 20
    first = done.traces[0].intended
    assert [trace.intended - first for trace in done.traces] == pytest.approx(list(load.arrivals()))
    assert all(trace.sent >= trace.intended for trace in done.traces)


async def test_so_many_are_at_once_and_never_more() -> None:
    async def answer(request: Asked) -> None:
        await server.until(lambda: server.now == 4 or len(server.asked) == 12)
        await request.speak(sound(FRAME))

    async with standing_in(answer) as server:
        done = await run(Closed(4, requests=12), client_of(server.url), ASKING)
    assert [trace.outcome for trace in done.traces] == ["ok"] * 12
    assert server.most <= 4
    assert [trace.number for trace in done.traces] == list(range(12))
    assert {request.body["seed"] for request in server.asked} == set(range(1, 13))


async def test_nobody_asks_again_when_the_time_is_over() -> None:
    async with standing_in(lambda request: request.speak(sound(FRAME))) as server:
        done = await run(Closed(2, seconds=0.2), client_of(server.url), ASKING)
    moments = [trace.intended for trace in done.traces]
    assert max(moments) - min(moments) < 0.2
    assert {trace.outcome for trace in done.traces} == {"ok"}


async def test_a_key_is_brought_along() -> None:
    async with standing_in(lambda request: request.speak(sound(FRAME))) as server:
        await run(Closed(1, requests=1), client_of(server.url, "some-secret"), ASKING)
        await run(Closed(1, requests=1), client_of(server.url), ASKING)
    assert "authorization: bearer some-secret" in server.asked[0].head
    assert "authorization" not in server.asked[1].head


async def refused(request: Asked) -> None:
    body = b'{"error": {"message": "The server is full.", "type": "rate_limit_error"}}'
    await request.begin("429 Too Many Requests", Content_Type="application/json")
    await request.piece(body)
    await request.piece(b"")


async def broken(request: Asked) -> None:
    await request.begin("502 Bad Gateway", Content_Type="text/html")
    await request.piece(b"<h1>Bad\n gateway</h1>")
    await request.piece(b"")


async def silent(request: Asked) -> None:
    """Closes without a word."""


async def cut_short(request: Asked) -> None:
    await request.begin()
    await request.piece(sound(FRAME))


async def nonsense(request: Asked) -> None:
    await request.send(b"220 mail.example.com ESMTP\r\n\r\n")


async def events(request: Asked) -> None:
    await request.begin(Content_Type="text/event-stream; charset=utf-8")
    await request.piece(b"data: {}\n\n")
    await request.piece(b"")


async def stereo(request: Asked) -> None:
    head = b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\x01\0\x02\0\xc0\x5d\0\0\0\x77\x01\0\x04\0\x10\0data\xff\xff\xff\xff"
    await request.speak(head + sound(FRAME))


@pytest.mark.parametrize(
    ("answer", "outcome", "detail"),
    [
        (refused, "429", "The server is full."),
        (broken, "502", "<h1>Bad gateway</h1>"),
        (silent, "no answer", "closed the connection"),
        (cut_short, "cut short", "closed the connection"),
        (nonsense, "no answer", "illegal"),
        (events, "not understood", "text/event-stream"),
        (stereo, "not understood", "2 channels"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_what_goes_wrong_is_told_by_its_kind(answer: Answer, outcome: str, detail: str) -> None:
    trace = await asked(answer)
    assert trace.outcome == outcome, trace.detail
    assert detail in trace.detail
    assert trace.ended > trace.sent


async def test_an_answer_that_never_ends_is_given_up() -> None:
    left = asyncio.Event()

    async def answer(request: Asked) -> None:
        await request.begin()
        try:
            while True:
                await request.piece(sound(FRAME))
        except ConnectionError:
            left.set()
            raise

    async with standing_in(answer) as server:
        done = await run(Closed(1, requests=1), client_of(server.url, timeout=0.3), ASKING)
        await asyncio.wait_for(left.wait(), 30)
    assert (done.traces[0].outcome, done.traces[0].detail) == ("timeout", "not complete after 0.3 s")


async def test_a_server_that_is_gone_is_an_outcome_too() -> None:
    async with standing_in(silent) as server:
        pass
    client = client_of(server.url)
    done = await run(Closed(1, requests=2), client, ASKING)
    assert [trace.outcome for trace in done.traces] == ["no connection"] * 2
    with pytest.raises(OSError, match="no connection to"):
        await client.reach()


async def test_https_is_verified(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    authority = trustme.CA()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(tls)
    async with standing_in(lambda request: request.speak(sound(FRAME)), tls) as server:
        stranger = client_of(server.url)
        authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
        friend = client_of(server.url)
        await friend.reach()
        outcomes = [(await run(Closed(1, requests=1), client, ASKING)).traces[0] for client in (friend, stranger)]
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
def test_a_host_a_base_address_or_the_very_address(server: str, address: str) -> None:
    assert speech_address(server) == address


@pytest.mark.parametrize("server", ["localhost:8000", "ftp://a", "http://", "http://a:b", "http://ü"])
def test_what_is_no_address(server: str) -> None:
    with pytest.raises(ValueError, match=server.replace("[", r"\[")):
        speech_address(server)


async def test_listeners_ask_again_when_they_have_heard_it_all() -> None:
    async def answer(request: Asked) -> None:
        await request.speak(sound(FRAME), sound(FRAME))

    async with standing_in(answer) as server:
        done = await run(RealtimeClients(2, requests=6, spread=0.1), client_of(server.url), ASKING)
    assert [trace.outcome for trace in done.traces] == ["ok"] * 6
    begun = sorted(trace.pieces[0][0] for trace in done.traces)
    heard = 2 * FRAME / 24_000
    for early, late in zip(begun, begun[2:], strict=False):
        assert late >= early + heard - 0.001, "two listeners, so the third request waits for the first to be heard"


async def test_listeners_who_are_refused_do_not_ask_again_at_once() -> None:
    async def answer(request: Asked) -> None:
        await request.begin("429 Too Many Requests", Transfer_Encoding="", Content_Length="0")

    async with standing_in(answer) as server:
        done = await run(RealtimeClients(3, seconds=0.5, spread=0.1), client_of(server.url), ASKING)
    assert [trace.outcome for trace in done.traces] == ["429"] * 3
