"""HTTP/1.1 framing on top of h11: request targets, ambiguous body lengths, upgrades, response trailers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import h11
from typing_extensions import override

_AUTHORITY_END = re.compile(rb"[/?#]")
_AUTHORITY = re.compile(rb"[A-Za-z0-9._~:\[\]%-]+")

HeaderList = list[tuple[bytes, bytes]]

_FREE_CHUNKS = 1024
_MIN_MEAN_CHUNK = 64
"""Bytes: after ``_FREE_CHUNKS`` chunks of a body, a smaller mean size is refused. Each chunk costs 6 us of CPU time."""


class H11Connection(h11.Connection):
    """The server side of a connection.

    Attributes:
        trailers: headers to send after the last chunk of the current response. Only for a chunked response.
        ends_with_connection: whether only the end of the connection marks the end of the current response, because
            the client uses HTTP/1.0 and the response has no Content-Length.
        head_request: whether the method of the current request is HEAD.
    """

    def __init__(self, max_incomplete_event_size: int) -> None:
        super().__init__(h11.SERVER, max_incomplete_event_size)
        self.trailers: HeaderList = []
        self.ends_with_connection = self.head_request = False
        self._chunks = self._chunk_bytes = 0

    @override
    def next_event(self) -> Any:
        """Return the next event. Raises h11.RemoteProtocolError, also for an invalid target and for tiny chunks."""
        event = super().next_event()
        if isinstance(event, h11.Data):
            self._chunks += 1
            self._chunk_bytes += len(event.data)
            if self._chunks > _FREE_CHUNKS and self._chunk_bytes < _MIN_MEAN_CHUNK * self._chunks:
                raise h11.RemoteProtocolError(
                    f"the chunks of the body must have {_MIN_MEAN_CHUNK} bytes on average after {_FREE_CHUNKS} chunks"
                )
        elif isinstance(event, h11.Request):
            self._chunks = self._chunk_bytes = 0
            self.head_request = event.method == b"HEAD"
            return _normalized(event)
        return event

    @override
    def send_with_data_passthrough(self, event: h11.Event) -> list[bytes] | None:
        """Return the bytes of ``event``, with trailers at the end of a message. ``send`` calls this for every event."""
        if isinstance(event, h11.Response):
            old_client = (self.their_http_version or b"1.1") < b"1.1"
            self.ends_with_connection = old_client and not _has(event.headers, b"content-length")
        elif self.trailers and isinstance(event, h11.EndOfMessage):
            event, self.trailers = h11.EndOfMessage(headers=self.trailers), []
        return super().send_with_data_passthrough(event)


def _normalized(request: h11.Request) -> h11.Request:
    """Return ``request`` with its target in origin form, one body length, and Upgrade only where it is valid.

    Only a GET request of HTTP/1.1 can become a WebSocket (RFC 6455, 4.1). In any other request Upgrade is ignored.
    """
    target, headers = request.target, request.headers
    ambiguous = _has(headers, b"transfer-encoding") and _has(headers, b"content-length")
    in_origin_form = target[:1] == b"/" or target == b"*" or request.method == b"CONNECT"
    can_upgrade = request.method == b"GET" and request.http_version == b"1.1"
    drop_upgrade = not can_upgrade and _has(headers, b"upgrade")
    if in_origin_form and not ambiguous and not drop_upgrade:
        return request
    changed = list(headers)
    if drop_upgrade:
        changed = _without(changed, b"upgrade")
    if ambiguous:  # RFC 9112, 6.1: Transfer-Encoding wins, and the connection must be closed after the response
        changed = [*_without(changed, b"content-length"), (b"connection", b"close")]
    if not in_origin_form:
        authority, target = _split_absolute(target)
        changed = [(b"host", authority), *_without(changed, b"host")]
    return h11.Request(method=request.method, target=target, headers=changed, http_version=request.http_version)


def _split_absolute(target: bytes) -> tuple[bytes, bytes]:
    """Return the authority, and the path with query, of an absolute-form target (RFC 9112, 3.2.2)."""
    scheme, separator, rest = target.partition(b"://")
    if not separator or scheme.lower() not in (b"http", b"https"):
        raise h11.RemoteProtocolError("the request target must be a path, or an http or https URL")
    end = match.start() if (match := _AUTHORITY_END.search(rest)) else len(rest)
    authority, path = rest[:end], rest[end:]
    if not _AUTHORITY.fullmatch(authority):
        raise h11.RemoteProtocolError("the URL of the request target has no valid host")
    return authority, path if path.startswith(b"/") else b"/" + path


def _has(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bool:
    return any(each == name for each, _ in headers)


def _without(headers: HeaderList, name: bytes) -> HeaderList:
    return [header for header in headers if header[0] != name]
