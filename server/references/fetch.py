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
from functools import cache
from types import TracebackType
from typing import Self

import httpx

from server.references.addresses import AddressRule
from server.references.config import ReferenceSettings
from server.references.validation import invalid_recording, recording_too_large, unsupported_source
from server.version import version

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host and port, in the order in which to try them. Raises OSError or UnicodeError."""

_MAX_LOOKUPS = 8
"""Maximum concurrent DNS lookups. A lookup cannot be cancelled, so each runs in a daemon thread, which does not delay
process exit."""

_LookupResult = list[str] | Exception


class SystemResolver:
    """Resolves host names with ``getaddrinfo``, off the event loop."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(_MAX_LOOKUPS)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of ``host``. Raises OSError or UnicodeError when the lookup fails."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Sequence[str]] = loop.create_future()

        def deliver(result: _LookupResult) -> None:
            self._slots.release()
            if found.done():
                return
            if isinstance(result, list):
                found.set_result(result)
            else:
                found.set_exception(result)

        def look_up() -> None:
            result = _addresses(host, port)
            with suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(deliver, result)

        await self._slots.acquire()
        try:
            threading.Thread(target=look_up, name="resolver", daemon=True).start()
        except RuntimeError:  # the system has no more threads
            self._slots.release()
            raise
        return await found


def _addresses(host: str, port: int) -> _LookupResult:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except Exception as error:
        return error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


_MAX_ADDRESSES = 4
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
        addresses = await self._permitted_addresses(host, request.url.port or _DEFAULT_PORTS[request.url.scheme])
        for address in addresses[:-1]:
            try:
                return await self._connections.handle_async_request(self._pinned(request, host, address))
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        return await self._connections.handle_async_request(self._pinned(request, host, addresses[-1]))

    async def _permitted_addresses(self, host: str, port: int) -> Sequence[str]:
        """Return the first few addresses of ``host``.

        Raises the same ApiError for an unknown host and for one with a private address, so that clients cannot probe
        which internal names exist.
        """
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError):
            addresses = ()
        if not addresses or not all(self._rule.permits(host, address) for address in addresses):
            reason = "the host of the URL is unknown, or has an address that is not public (references.private_hosts)"
            raise invalid_recording(reason, _URL_REFUSED)
        return addresses[:_MAX_ADDRESSES]

    def _pinned(self, request: httpx.Request, host: str, address: str) -> httpx.Request:
        extensions = {"timeout": self._timeout, "sni_hostname": host.rstrip(".")}
        return httpx.Request(
            request.method, request.url.copy_with(host=address), headers=request.headers, extensions=extensions
        )


_MAX_REDIRECTS = 3
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PORTS = range(1, 65_536)
_FETCH_FAILED, _URL_REFUSED = "reference_fetch_failed", "reference_url_refused"


class Fetcher:
    """Fetches files, without credentials or cookies and without the proxies of the environment.

    Args:
        settings: the settings ``references``.
        max_bytes: maximum size of a file.
        resolve: resolves host names, once per connection.
        tls: context with the certificate authorities for https. Default: those of httpx.
    """

    def __init__(
        self, settings: ReferenceSettings, max_bytes: int, resolve: Resolve, tls: ssl.SSLContext | None = None
    ) -> None:
        self._settings, self._max_bytes, self._resolve = settings, max_bytes, resolve
        self._rule = AddressRule.of(settings.private_hosts)
        self._tls = tls or _default_tls()

    async def fetch(self, url: str) -> bytes:
        """Return the file at ``url``. Raises ApiError when it is not allowed, not found, too large or too slow."""
        if not self._settings.fetch_urls:
            raise unsupported_source("this server does not fetch URLs (references.fetch_urls); send a 'data:' URL")
        seconds = self._settings.fetch_seconds
        try:
            async with asyncio.timeout(seconds) as deadline, self._transport() as transport:
                return await self._follow(_checked_url(url), transport)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise invalid_recording(
                f"the URL could not be fetched within {seconds:g} s (references.fetch_seconds)", _FETCH_FAILED
            ) from None
        except (httpx.ConnectError, httpx.ConnectTimeout):
            raise invalid_recording(
                "the host of the URL cannot be reached, or its certificate is not valid", _FETCH_FAILED
            ) from None
        except (httpx.HTTPError, ssl.SSLError):
            raise invalid_recording(
                "the host of the URL closed the connection early, or sent invalid HTTP", _FETCH_FAILED
            ) from None

    def _transport(self) -> PinnedTransport:
        return PinnedTransport(self._rule, self._resolve, self._tls, self._settings.fetch_seconds / 3)

    async def _follow(self, url: httpx.URL, transport: PinnedTransport) -> bytes:
        for _ in range(1 + _MAX_REDIRECTS):
            response = await transport.handle_async_request(_request(url))
            async with aclosing(response):
                if response.status_code not in _REDIRECTS:
                    return await self._file(response)
                url = _redirect_target(url, response)
        raise invalid_recording(f"the URL redirects more than {_MAX_REDIRECTS} times", _FETCH_FAILED)

    async def _file(self, response: httpx.Response) -> bytes:
        if response.status_code != 200:
            raise invalid_recording(
                f"the host of the URL returned status {response.status_code}, not 200", _FETCH_FAILED
            )
        if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            raise invalid_recording(
                "the host of the URL sent a compressed response, which is not supported", _FETCH_FAILED
            )
        length = response.headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._max_bytes:
            raise recording_too_large(self._max_bytes)
        file = bytearray()
        async for part in response.aiter_raw():
            file += part
            if len(file) > self._max_bytes:
                raise recording_too_large(self._max_bytes)
        return bytes(file)


@cache
def _default_tls() -> ssl.SSLContext:
    """Return httpx's context. It is made once: this takes tens of milliseconds, in which no stream gets audio."""
    return httpx.create_ssl_context()


def _request(url: httpx.URL) -> httpx.Request:
    headers = {
        "Accept": "audio/*, */*;q=0.5",
        "Accept-Encoding": "identity",
        "Connection": "close",
        "User-Agent": f"sonant/{version()}",
    }
    return httpx.Request("GET", url, headers=headers)


def _redirect_target(url: httpx.URL, response: httpx.Response) -> httpx.URL:
    """Return the target URL of a redirect. Raises ApiError for a downgrade from https to http, or an invalid URL."""
    target = _checked_url(response.headers.get("location", ""), url)
    if url.scheme == "https" and target.scheme == "http":
        raise invalid_recording("the URL redirects from https to http", _URL_REFUSED)
    return target


def _checked_url(address: str, base: httpx.URL | None = None) -> httpx.URL:
    """Return ``address``, resolved against ``base``, as a URL that may be fetched. Raises ApiError."""
    try:
        url = httpx.URL(address) if base is None else base.join(address)
    except (httpx.InvalidURL, ValueError):
        raise invalid_recording("the URL, or one that it redirects to, is not valid", _URL_REFUSED) from None
    if url.scheme not in ("http", "https") or not url.host:
        raise invalid_recording("the URL, and all that it redirects to, must be http or https", _URL_REFUSED)
    if url.port is not None and url.port not in _PORTS:
        raise invalid_recording("the URL, or one that it redirects to, has an invalid port", _URL_REFUSED)
    if url.userinfo:
        raise invalid_recording("the URL must not contain a user name or a password", _URL_REFUSED)
    return url
