"""Recordings from http and https addresses, under rules that keep this server from reaching where it should not."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import aclosing

import httpx

from server.references.addresses import AddressRule
from server.references.config import ReferenceSettings
from server.references.refusals import refusal, too_large, unsupported
from server.references.resolver import Resolve
from server.references.transport import PinnedTransport
from server.version import version

_MOST_REDIRECTS = 3
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PORTS = range(1, 65_536)
_FAILED, _REFUSED = "reference_fetch_failed", "reference_url_refused"


class Fetcher:
    """Fetches files. Nothing of this server goes along: no credentials, no cookies, and no proxy of its environment.

    resolve: looks up every host, once for each connection.
    tls: the authorities that https is verified against; the usual ones unless given.
    """

    def __init__(
        self, settings: ReferenceSettings, most_bytes: int, resolve: Resolve, tls: ssl.SSLContext | None = None
    ) -> None:
        self._settings, self._most_bytes, self._resolve = settings, most_bytes, resolve
        self._rule = AddressRule.of(settings.private_hosts)
        self._tls = tls or httpx.create_ssl_context()

    async def fetch(self, url: str) -> bytes:
        """The file at ``url``. Raises ApiError: not allowed, not there, too large, too slow."""
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
    """Where a redirect leads. Never from https to http: what was asked for safely is not fetched otherwise."""
    target = _checked(response.headers.get("location", ""), url)
    if url.scheme == "https" and target.scheme == "http":
        raise refusal("it redirects from https to http", _REFUSED)
    return target


def _checked(address: str, base: httpx.URL | None = None) -> httpx.URL:
    """``address``, relative to ``base``, as a URL that may be asked for."""
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
