"""Parses and checks HTTP replies: only documented statuses, and errors only in the documented format."""

from __future__ import annotations

import http.client
import io
import json
from dataclasses import dataclass
from typing import Any

_STATUSES = frozenset({200, 307, 400, 403, 404, 405, 408, 409, 413, 415, 429, 431})
_FIELDS = ["code", "message", "param", "type"]
_MAX_MESSAGE = 4096


class Finding(AssertionError):
    """The server did something that it must not do."""


@dataclass(frozen=True)
class Reply:
    """One complete reply."""

    status: int
    headers: dict[str, str]
    body: bytes


class _Received:
    """Received bytes, in the form of a socket for ``http.client``."""

    def __init__(self, data: bytes) -> None:
        self.file = io.BytesIO(data)
        self.file.close = lambda: None  # type: ignore[method-assign]

    def makefile(self, *_: object) -> io.BytesIO:
        return self.file


def parse_replies(data: bytes, methods: tuple[str, ...] = (), *, complete: bool = True) -> list[Reply]:
    """Parse and check the replies in ``data``. Raises Finding.

    methods: of the requests; GET by default. complete: whether the last reply must be complete.
    """
    received = _Received(data)
    replies: list[Reply] = []
    while received.file.tell() < len(data):
        method = methods[len(replies)] if len(replies) < len(methods) else "GET"
        try:
            replies.append(_next(received, method))
        except (http.client.HTTPException, ValueError) as error:
            if complete:
                raise Finding(f"incomplete reply: {error!r} in {data[:300]!r}") from None
            break
    return replies


def _next(received: _Received, method: str) -> Reply:
    response = http.client.HTTPResponse(received, method=method)  # type: ignore[arg-type]
    response.begin()
    headers = {name.lower(): value for name, value in response.getheaders()}
    if response.status == 101:
        return Reply(101, headers, received.file.read())
    reply = Reply(response.status, headers, response.read())
    check(reply, has_body=method != "HEAD")
    return reply


def check(reply: Reply, *, has_body: bool = True) -> None:
    """Check the status, headers and error of a reply. Raises Finding."""
    if reply.status not in _STATUSES:
        raise Finding(f"status {reply.status}: {reply.body[:500]!r}")
    if "x-request-id" not in reply.headers:
        raise Finding(f"reply without X-Request-Id: {reply}")
    if reply.status >= 400 and has_body:
        if reply.headers.get("content-type") != "application/json":
            raise Finding(f"error whose content type is not JSON: {reply}")
        check_error(json.loads(reply.body))


def check_error(body: Any) -> None:
    """Check the format of an error. Raises Finding."""
    if not isinstance(body, dict) or list(body) != ["error"] or sorted(body["error"]) != _FIELDS:
        raise Finding(f"unexpected error format: {body}")
    error = body["error"]
    has_message = isinstance(error["message"], str) and 0 < len(error["message"]) < _MAX_MESSAGE
    has_strings = all(error[name] is None or isinstance(error[name], str) for name in ("param", "code"))
    if not (has_message and has_strings and isinstance(error["type"], str)):
        raise Finding(f"unexpected error format: {body}")
