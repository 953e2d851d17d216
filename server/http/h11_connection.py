"""HTTP/1.1 framing on top of h11: absolute-form request targets, ambiguous body lengths, response trailers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import h11

_AUTHORITY_END = re.compile(rb"[/?#]")
_AUTHORITY = re.compile(rb"[A-Za-z0-9._~:\[\]%-]+")

HeaderList = list[tuple[bytes, bytes]]

_CHUNKS_COUNTED = 1024
_MIN_MEAN_CHUNK = 64
"""Bytes: after ``_CHUNKS_COUNTED`` pieces of a body, a smaller mean is refused. Each piece costs 6 us of CPU time."""


class H11Connection(h11.Connection):
    """The server side of a connection.

    Attributes:
        trailers: headers to send after the last chunk of the current response. Only for a chunked response.
        ends_with_connection: whether only the end of the connection marks the end of the current response, because
            the client uses HTTP/1.0 and the response has no Content-Length.
    """

    def __init__(self, max_incomplete_event_size: int) -> None:
        super().__init__(h11.SERVER, max_incomplete_event_size)
        self.trailers: HeaderList = []
        self.ends_with_connection = False
        self._pieces = self._bytes = 0

    def next_event(self) -> Any:
        """The next event. Raises h11.RemoteProtocolError, also for a target that cannot be served or tiny chunks."""
        event = super().next_event()
        if isinstance(event, h11.Data):
            self._pieces += 1
            self._bytes += len(event.data)
            if self._pieces > _CHUNKS_COUNTED and self._bytes < _MIN_MEAN_CHUNK * self._pieces:
                raise h11.RemoteProtocolError("the chunks of the body are too small")
        elif isinstance(event, h11.Request):
            self._pieces = self._bytes = 0
            return _normalized(event)
        return event

    def send_with_data_passthrough(self, event: h11.Event) -> list[bytes] | None:
        """Return the bytes of ``event``, with trailers at the end of a message. ``send`` calls this for every event."""
        if isinstance(event, h11.Response):
            old = (self.their_http_version or b"1.1") < b"1.1"
            self.ends_with_connection = old and not _has(event.headers, b"content-length")
        elif self.trailers and isinstance(event, h11.EndOfMessage):
            event, self.trailers = h11.EndOfMessage(headers=self.trailers), []
        return super().send_with_data_passthrough(event)


def _normalized(request: h11.Request) -> h11.Request:
    """Return ``request`` with its target in origin form and without an ambiguous body length."""
    target, headers = request.target, request.headers
    ambiguous = _has(headers, b"transfer-encoding") and _has(headers, b"content-length")
    in_origin_form = target[:1] == b"/" or target == b"*" or request.method == b"CONNECT"
    if in_origin_form and not ambiguous:
        return request
    changed = list(headers)
    if ambiguous:  # RFC 9112, 6.1: Transfer-Encoding wins, and the connection must be closed after the response
        changed = [*_without(changed, b"content-length"), (b"connection", b"close")]
    if not in_origin_form:
        authority, target = _split(target)
        changed = [(b"host", authority), *_without(changed, b"host")]
    return h11.Request(method=request.method, target=target, headers=changed, http_version=request.http_version)


def _split(target: bytes) -> tuple[bytes, bytes]:
    """Return the authority, and the path with query, of an absolute-form target (RFC 9112, 3.2.2)."""
    scheme, separator, rest = target.partition(b"://")
    if not separator or scheme.lower() not in (b"http", b"https"):
        raise h11.RemoteProtocolError("the request target must be a path, or a URL that begins with http")
    end = match.start() if (match := _AUTHORITY_END.search(rest)) else len(rest)
    authority, path = rest[:end], rest[end:]
    if not _AUTHORITY.fullmatch(authority):
        raise h11.RemoteProtocolError("the URL in the request line has no valid host")
    return authority, path if path.startswith(b"/") else b"/" + path


def _has(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bool:
    return any(each == name for each, _ in headers)


def _without(headers: HeaderList, name: bytes) -> HeaderList:
    return [header for header in headers if header[0] != name]
