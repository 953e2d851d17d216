"""The HTTP client of ``sonant bench``: one request per connection, with timestamps of the response as it arrives."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import h11
from typing_extensions import override

from server.bench.samples import Samples
from server.bench.trace import Trace

_UNSUPPORTED_TYPES = (
    "application/json",
    "text/",
    "audio/mpeg",
    "audio/mp3",
    "audio/ogg",
    "audio/opus",
    "audio/aac",
    "audio/flac",
)
_MAX_ERROR_BYTES = 65_536
_CLOSED = "the server closed the connection"


Send = Callable[[Trace], Coroutine[Any, Any, None]]
"""Sends a request and reads its response to the end. All that happens is recorded in the trace, failures too."""


class Exchange(asyncio.Protocol):
    """Sends ``request`` with ``body`` once connected, and records events with their timestamps in ``trace``.

    Args:
        request: the head of the request.
        body: the body of the request.
        samples: receives the body of the response.

    Attributes:
        trace: receives the events. To be set before the connection is made.
        ended: a future that is done when the exchange has ended.
    """

    def __init__(self, request: h11.Request, body: bytes, samples: Samples) -> None:
        self.trace: Trace
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._samples = samples
        self._http = h11.Connection(h11.CLIENT)
        events = (request, h11.Data(body), h11.EndOfMessage())
        self._request = b"".join(self._http.send(event) or b"" for event in events)
        self._error_body: bytearray | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request. With https, the TLS handshake is complete."""
        assert isinstance(transport, asyncio.WriteTransport)
        self.trace.connected = time.perf_counter()
        transport.write(self._request)

    @override
    def data_received(self, data: bytes) -> None:
        self._receive(data, time.perf_counter())

    @override
    def eof_received(self) -> None:
        """Handle the server's end of stream, which ends a body without a length."""
        self._receive(b"", time.perf_counter())

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        """End the exchange with an error if it has not ended."""
        if not self.ended.done():
            self._fail(str(exc or _CLOSED))

    def _receive(self, data: bytes, now: float) -> None:
        if self.ended.done():
            return
        try:
            self._http.receive_data(data)
            while not self.ended.done() and (event := self._http.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                self._handle(event, now)
        except h11.RemoteProtocolError as error:
            self._fail(str(error) if data else _CLOSED)
        except ValueError as error:
            self._end("not understood", str(error))

    def _handle(self, event: object, now: float) -> None:
        match event:
            case h11.Response():
                self._begin_response(event, now)
            case h11.Data() if self._error_body is not None:
                self._error_body += event.data[: _MAX_ERROR_BYTES - len(self._error_body)]
            case h11.Data():
                if size := self._samples.add(bytes(event.data)):
                    self.trace.pieces.append((now, size))
            case h11.EndOfMessage() if self._error_body is not None:
                self._end(self.trace.outcome, message_of(bytes(self._error_body)))
            case h11.EndOfMessage():
                self.trace.rate, self.trace.onset = self._samples.rate, self._samples.onset
                self._end("ok", "")
            case h11.ConnectionClosed():
                self._fail(_CLOSED)

    def _begin_response(self, response: h11.Response, now: float) -> None:
        self.trace.answered = now
        headers = {name: value.decode("latin-1") for name, value in response.headers}
        if response.status_code != 200:
            self.trace.outcome, self._error_body = str(response.status_code), bytearray()
            return
        content_type = headers.get(b"content-type", "").lower()
        if content_type.startswith(_UNSUPPORTED_TYPES):
            raise ValueError(f"the response must be PCM or WAV to be timed, got {content_type} (see --body)")
        rate = headers.get(b"x-sample-rate", "")
        if rate.isdecimal() and int(rate):
            self._samples.rate = int(rate)

    def _fail(self, detail: str) -> None:
        self._end("no answer" if self.trace.answered is None else "cut short", detail)

    def _end(self, outcome: str, detail: str) -> None:
        self.trace.end(outcome, detail)
        self.ended.set_result(None)


def message_of(body: bytes) -> str:
    """Return the message of an error response in OpenAI's format, or the whole body as text."""
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode("utf-8", "replace")


_PATH = "/v1/audio/speech"


class Client:
    """Sends speech requests to ``server``. Used from one event loop by all simulated clients.

    Args:
        server: see ``speech_address``. Raises ValueError if it is invalid.
        key: API key, or None.
        timeout: request timeout in seconds.
        rate: sample rate in Hz if the response does not contain one (``X-Sample-Rate`` or WAV header).
        audible: see Samples.
    """

    def __init__(self, server: str, key: str | None, *, timeout: float, rate: int, audible: float) -> None:
        self.address = speech_address(server)
        parts = urlsplit(self.address)
        self._host, self._port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._target = (parts.path + (f"?{parts.query}" if parts.query else "")).encode("ascii")
        self._headers = [("Host", parts.netloc.rpartition("@")[2]), ("Content-Type", "application/json")]
        self._headers += [("Connection", "close"), *([("Authorization", f"Bearer {key}")] if key else [])]
        self._timeout, self._rate, self._audible = timeout, rate, audible
        self._peer = self._host

    async def reach(self) -> None:
        """Resolve the host and find its reachable address, once for all requests. Raises OSError."""
        try:
            async with asyncio.timeout(self._timeout):
                _, writer = await asyncio.open_connection(self._host, self._port)
        except TimeoutError:
            raise OSError(f"no connection to {self.address} within {self._timeout:g} s") from None
        except OSError as error:
            raise OSError(f"no connection to {self.address}: {error.strerror or error}") from None
        self._peer = writer.get_extra_info("peername")[0]
        writer.close()

    def prepare(self, body: bytes, headers: Sequence[tuple[str, str]] = ()) -> Send:
        """Return a function that sends a request, which is ready by then, and reads its response to the end.

        headers: of this request, in addition to those of all requests.
        """
        head = [*self._headers, *headers, ("Content-Length", str(len(body)))]
        request = h11.Request(method="POST", target=self._target, headers=head)
        return partial(self._send, Exchange(request, body, Samples(self._rate, self._audible)))

    async def _send(self, exchange: Exchange, trace: Trace) -> None:
        exchange.trace = trace
        transport: asyncio.WriteTransport | None = None
        try:
            async with asyncio.timeout(self._timeout):
                transport = await self._connect(exchange)
                await exchange.ended
                transport.close()
        except TimeoutError:
            trace.end("timeout", f"not complete after {self._timeout:g} s")
        except OSError as error:
            trace.end("no connection", str(error))
        finally:
            if transport is not None and not transport.is_closing():
                transport.abort()

    async def _connect(self, exchange: Exchange) -> asyncio.WriteTransport:
        name = self._host if self._tls else None
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(
            lambda: exchange, self._peer, self._port, ssl=self._tls, server_hostname=name
        )
        return transport


def speech_address(server: str) -> str:
    """Return the URL of the speech endpoint of ``server``.

    ``server`` is a URL without a path, an OpenAI base URL that ends in /v1, or the full URL of the endpoint. Raises
    ValueError.
    """
    try:
        url = urlsplit(server)
        valid = url.scheme in ("http", "https") and url.hostname and url.port != 0 and server.isascii()
    except ValueError as error:
        raise ValueError(f"{server}: {error}") from None
    if not valid:
        raise ValueError(f"{server}: not an http or https URL")
    path = url.path.rstrip("/")
    if not path:
        return url._replace(path=_PATH).geturl()
    return url._replace(path=path + _PATH.removeprefix("/v1")).geturl() if path.endswith("/v1") else url.geturl()
