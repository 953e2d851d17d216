"""Fetches reference recordings over HTTP from allowed addresses only (SSRF protection).

Each host name is resolved once per connection, and the connection is pinned to the checked address.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from types import TracebackType
from typing import Self

import httpx

from server.references.addresses import AddressRule
from server.references.bounds import refusal, too_large, unsupported
from server.references.config import ReferenceSettings
from server.version import version

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host and port, in the order in which to try them. Raises OSError or UnicodeError."""

_LOOKUPS = 8
"""Maximum concurrent DNS lookups. A lookup cannot be cancelled, so each runs in a daemon thread, which does not delay
process exit."""

_Answer = list[str] | Exception


class SystemResolver:
    """Resolves host names with ``getaddrinfo``, off the event loop."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(_LOOKUPS)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of ``host``. Raises OSError or UnicodeError when the lookup fails."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Sequence[str]] = loop.create_future()

        def tell(answer: _Answer) -> None:
            self._places.release()
            if found.done():
                return
            if isinstance(answer, list):
                found.set_result(answer)
            else:
                found.set_exception(answer)

        def look_up() -> None:
            answer = _addresses(host, port)
            with suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(tell, answer)

        await self._places.acquire()
        threading.Thread(target=look_up, name="resolver", daemon=True).start()
        return await found


def _addresses(host: str, port: int) -> _Answer:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except Exception as error:
        return error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


_MOST_ADDRESSES = 4
_DEFAULT_PORTS = {"http": 80, "https": 443}


class PinnedTransport(httpx.AsyncBaseTransport):
    """Resolves a request's host once, checks every address, and connects only to one of these addresses.

    This prevents DNS rebinding. TLS still sends the host name (SNI) and verifies it. Connections are not reused, and
    no headers or credentials are added to the request.
    """

    def __init__(self, rule: AddressRule, resolve: Resolve, tls: ssl.SSLContext, connect_seconds: float) -> None:
        self._rule, self._resolve = rule, resolve
        self._timeout = {"connect": connect_seconds}
        self._connections = httpx.AsyncHTTPTransport(
            verify=tls, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
        )

    async def __aenter__(self) -> Self:
        await self._connections.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self._connections.__aexit__(exc_type, exc_value, traceback)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the response, with its body not yet read.

        Tries the addresses in order. Raises ApiError when an address is not allowed, or httpx.HTTPError.
        """
        host = request.url.raw_host.decode("ascii")
        addresses = await self._permitted(host, request.url.port or _DEFAULT_PORTS[request.url.scheme])
        for address in addresses[:-1]:
            try:
                return await self._connections.handle_async_request(self._pinned(request, host, address))
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        return await self._connections.handle_async_request(self._pinned(request, host, addresses[-1]))

    async def _permitted(self, host: str, port: int) -> Sequence[str]:
        """Return the first few addresses of ``host``.

        Raises the same ApiError for an unknown host and for one with a private address, so that clients cannot probe
        which internal names exist.
        """
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError):
            addresses = ()
        if not addresses or not all(self._rule.permits(host, address) for address in addresses):
            raise refusal("its host has no address that this server may fetch from", "reference_url_refused")
        return addresses[:_MOST_ADDRESSES]

    def _pinned(self, request: httpx.Request, host: str, address: str) -> httpx.Request:
        extensions = {"timeout": self._timeout, "sni_hostname": host.rstrip(".")}
        return httpx.Request(
            request.method, request.url.copy_with(host=address), headers=request.headers, extensions=extensions
        )


_MOST_REDIRECTS = 3
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PORTS = range(1, 65_536)
_FAILED, _REFUSED = "reference_fetch_failed", "reference_url_refused"


class Fetcher:
    """Fetches files, without credentials or cookies and without the proxies of the environment.

    resolve: resolves host names, once per connection.
    tls: context with the certificate authorities for https; the default ones unless given.
    """

    def __init__(
        self, settings: ReferenceSettings, most_bytes: int, resolve: Resolve, tls: ssl.SSLContext | None = None
    ) -> None:
        self._settings, self._most_bytes, self._resolve = settings, most_bytes, resolve
        self._rule = AddressRule.of(settings.private_hosts)
        self._tls = tls or httpx.create_ssl_context()

    async def fetch(self, url: str) -> bytes:
        """Return the file at ``url``. Raises ApiError when it is not allowed, not found, too large or too slow."""
        if not self._settings.fetch_urls:
            raise unsupported("this server fetches no addresses; send the recording itself as a 'data:' URL")
        seconds = self._settings.fetch_seconds
        try:
            async with asyncio.timeout(seconds) as deadline, self._transport() as transport:
                return await self._follow(_checked(url), transport)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise refusal(f"it could not be fetched within {seconds:g} s", _FAILED) from None
        except (httpx.ConnectError, httpx.ConnectTimeout):
            raise refusal("its host cannot be reached, or its certificate is not valid", _FAILED) from None
        except (httpx.HTTPError, ssl.SSLError):
            raise refusal("its host broke off, or did not speak HTTP", _FAILED) from None

    def _transport(self) -> PinnedTransport:
        return PinnedTransport(self._rule, self._resolve, self._tls, self._settings.fetch_seconds / 3)

    async def _follow(self, url: httpx.URL, transport: PinnedTransport) -> bytes:
        for _ in range(1 + _MOST_REDIRECTS):
            response = await transport.handle_async_request(_request(url))
            async with aclosing(response):
                if response.status_code not in _REDIRECTS:
                    return await self._file(response)
                url = _target(url, response)
        raise refusal(f"it redirects more than {_MOST_REDIRECTS} times", _FAILED)

    async def _file(self, response: httpx.Response) -> bytes:
        if response.status_code != 200:
            raise refusal(f"its host answered with status {response.status_code}", _FAILED)
        if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            raise refusal("its host sends it compressed, although it was asked not to", _FAILED)
        length = response.headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._most_bytes:
            raise too_large(self._most_bytes)
        file = bytearray()
        async for part in response.aiter_raw():
            file += part
            if len(file) > self._most_bytes:
                raise too_large(self._most_bytes)
        return bytes(file)


def _request(url: httpx.URL) -> httpx.Request:
    headers = {
        "Accept": "audio/*, */*;q=0.5",
        "Accept-Encoding": "identity",
        "Connection": "close",
        "User-Agent": f"sonant/{version()}",
    }
    return httpx.Request("GET", url, headers=headers)


def _target(url: httpx.URL, response: httpx.Response) -> httpx.URL:
    """Return the target URL of a redirect. Raises ApiError for a downgrade from https to http, or an invalid URL."""
    target = _checked(response.headers.get("location", ""), url)
    if url.scheme == "https" and target.scheme == "http":
        raise refusal("it redirects from https to http", _REFUSED)
    return target


def _checked(address: str, base: httpx.URL | None = None) -> httpx.URL:
    """Return ``address``, resolved against ``base``, as a URL that may be fetched. Raises ApiError."""
    try:
        url = httpx.URL(address) if base is None else base.join(address)
    except (httpx.InvalidURL, ValueError):
        raise refusal("its address, or one that it redirects to, is not a URL", _REFUSED) from None
    if url.scheme not in ("http", "https") or not url.host:
        raise refusal("only http and https addresses are fetched, also after a redirect", _REFUSED)
    if url.port is not None and url.port not in _PORTS:
        raise refusal("its address, or one that it redirects to, has an impossible port", _REFUSED)
    if url.userinfo:
        raise refusal("an address with a user name or a password is not fetched", _REFUSED)
    return url
