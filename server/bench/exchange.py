"""One request on a connection of its own, and its answer as it comes."""

from __future__ import annotations

import asyncio
import json
import time

import h11

from server.bench.samples import Samples
from server.bench.trace import Trace

_NO_SAMPLES = (
    "application/json",
    "text/",
    "audio/mpeg",
    "audio/mp3",
    "audio/ogg",
    "audio/opus",
    "audio/aac",
    "audio/flac",
)
_MOST_OF_A_REFUSAL = 65_536
_CLOSED = "the server closed the connection"


class Exchange(asyncio.Protocol):
    """Sends ``request`` with ``body`` once connected, and writes into ``trace`` what happens, at the moment it does.

    samples: takes the body of the answer. over: done when there is nothing more to wait for.
    """

    def __init__(self, request: h11.Request, body: bytes, samples: Samples, trace: Trace) -> None:
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._request, self._body = request, body
        self._samples, self._trace = samples, trace
        self._http = h11.Connection(h11.CLIENT)
        self._refusal: bytearray | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands; with https, the handshake is over too."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._trace.connected = time.perf_counter()
        events = (self._request, h11.Data(self._body), h11.EndOfMessage())
        transport.write(b"".join(self._http.send(event) or b"" for event in events))

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        self._take(data, time.perf_counter())

    def eof_received(self) -> None:
        """The server closed its side: for some bodies that is their end."""
        self._take(b"", time.perf_counter())

    def connection_lost(self, exc: Exception | None) -> None:
        """There is no connection any more."""
        if not self.over.done():
            self._broke(str(exc or _CLOSED))

    def _take(self, data: bytes, moment: float) -> None:
        if self.over.done():
            return
        try:
            self._http.receive_data(data)
            while not self.over.done() and (event := self._http.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                self._happened(event, moment)
        except h11.RemoteProtocolError as error:
            self._broke(str(error) if data else _CLOSED)
        except ValueError as error:
            self._end("not understood", str(error))

    def _happened(self, event: object, moment: float) -> None:
        match event:
            case h11.Response():
                self._answered(event, moment)
            case h11.Data() if self._refusal is not None:
                self._refusal += event.data[: _MOST_OF_A_REFUSAL - len(self._refusal)]
            case h11.Data():
                if size := self._samples.take(bytes(event.data)):
                    self._trace.pieces.append((moment, size))
            case h11.EndOfMessage() if self._refusal is not None:
                self._end(self._trace.outcome, message_of(bytes(self._refusal)))
            case h11.EndOfMessage():
                self._trace.rate, self._trace.onset = self._samples.rate, self._samples.onset
                self._end("ok", "")
            case h11.ConnectionClosed():
                self._broke(_CLOSED)

    def _answered(self, response: h11.Response, moment: float) -> None:
        self._trace.answered = moment
        headers = {name: value.decode("latin-1") for name, value in response.headers}
        if response.status_code != 200:
            self._trace.outcome, self._refusal = str(response.status_code), bytearray()
            return
        kind = headers.get(b"content-type", "").lower()
        if kind.startswith(_NO_SAMPLES):
            raise ValueError(f"the answer is {kind}; only PCM and WAV can be timed (see --body)")
        told = headers.get(b"x-sample-rate", "")
        if told.isdecimal() and int(told):
            self._samples.rate = int(told)

    def _broke(self, detail: str) -> None:
        self._end("no answer" if self._trace.answered is None else "cut short", detail)

    def _end(self, outcome: str, detail: str) -> None:
        self._trace.end(outcome, detail)
        self.over.set_result(None)


def message_of(body: bytes) -> str:
    """What an answer that is no speech says: the message of an error in OpenAI's shape, or all of it."""
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode("utf-8", "replace")
