"""HTTP connections to addresses that were looked up once and checked."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import httpx

from server.references.addresses import AddressRule
from server.references.refusals import refusal
from server.references.resolver import Resolve

_MOST_ADDRESSES = 4
_DEFAULT_PORTS = {"http": 80, "https": 443}


class PinnedTransport(httpx.AsyncBaseTransport):
    """Looks up a request's host once, checks every address, and connects to one of exactly those.

    TLS still names, and verifies, the host. Connections are used once; nothing is sent that the request does not hold.
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
        """The answer, its body unread. Raises ApiError for an address that is not permitted, or httpx.HTTPError."""
        host = request.url.raw_host.decode("ascii")
        addresses = await self._permitted(host, request.url.port or _DEFAULT_PORTS[request.url.scheme])
        for address in addresses[:-1]:
            try:
                return await self._connections.handle_async_request(self._pinned(request, host, address))
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        return await self._connections.handle_async_request(self._pinned(request, host, addresses[-1]))

    async def _permitted(self, host: str, port: int) -> Sequence[str]:
        """Some addresses of ``host``. A name that has none and one that is private are told apart by nobody."""
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
