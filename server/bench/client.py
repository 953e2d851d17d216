"""Asks for speech over HTTP/1.1, on a connection of its own each time, as strangers do."""

from __future__ import annotations

import asyncio
import ssl
from urllib.parse import urlsplit

import h11

from server.bench.exchange import Exchange
from server.bench.samples import Samples
from server.bench.trace import Trace

_PATH = "/v1/audio/speech"


class Client:
    """Every listener of one event loop, at ``server``.

    patience: seconds that a request may take. rate: of samples, in Hz, where the answer does not tell (X-Sample-Rate).
    audible: see Samples. Raises ValueError for an address that is none.
    """

    def __init__(self, server: str, key: str | None, *, patience: float, rate: int, audible: float) -> None:
        self.address = speech_address(server)
        parts = urlsplit(self.address)
        self._host, self._port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._target = (parts.path + (f"?{parts.query}" if parts.query else "")).encode("ascii")
        self._headers = [("Host", parts.netloc.rpartition("@")[2]), ("Content-Type", "application/json")]
        self._headers += [("Connection", "close"), *([("Authorization", f"Bearer {key}")] if key else [])]
        self._patience, self._rate, self._audible = patience, rate, audible
        self._reached = self._host

    async def reach(self) -> None:
        """Find out under which of its host's addresses the server is, once for all requests. Raises OSError."""
        try:
            async with asyncio.timeout(self._patience):
                _, writer = await asyncio.open_connection(self._host, self._port)
        except TimeoutError:
            raise OSError(f"no connection to {self.address} within {self._patience:g} s") from None
        except OSError as error:
            raise OSError(f"no connection to {self.address}: {error.strerror or error}") from None
        self._reached = writer.get_extra_info("peername")[0]
        writer.close()

    async def ask(self, body: bytes, trace: Trace) -> None:
        """Ask once, and listen to the end. What goes wrong is in ``trace``, too."""
        samples = Samples(self._rate, self._audible)
        headers = [*self._headers, ("Content-Length", str(len(body)))]
        exchange = Exchange(h11.Request(method="POST", target=self._target, headers=headers), body, samples, trace)
        transport: asyncio.WriteTransport | None = None
        try:
            async with asyncio.timeout(self._patience):
                transport = await self._connect(exchange)
                await exchange.over
                transport.close()
        except TimeoutError:
            trace.end("timeout", f"not over after {self._patience:g} s")
        except OSError as error:
            trace.end("no connection", str(error))
        finally:
            if transport is not None and not transport.is_closing():
                transport.abort()

    async def _connect(self, exchange: Exchange) -> asyncio.WriteTransport:
        name = self._host if self._tls else None
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(
            lambda: exchange, self._reached, self._port, ssl=self._tls, server_hostname=name
        )
        return transport


def speech_address(server: str) -> str:
    """Where speech is asked for at ``server``: a host, OpenAI's base URL that ends in /v1, or the very address.

    Raises ValueError.
    """
    try:
        url = urlsplit(server)
        known = url.scheme in ("http", "https") and url.hostname and url.port != 0 and server.isascii()
    except ValueError as error:
        raise ValueError(f"{server}: {error}") from None
    if not known:
        raise ValueError(f"{server}: not an http or https address")
    path = url.path.rstrip("/")
    if not path:
        return url._replace(path=_PATH).geturl()
    return url._replace(path=path + _PATH.removeprefix("/v1")).geturl() if path.endswith("/v1") else url.geturl()
