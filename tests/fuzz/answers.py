"""What a server may answer to anything: a status that is documented, and every error in the one shape."""

from __future__ import annotations

import http.client
import io
import json
from dataclasses import dataclass
from typing import Any

_STATUSES = frozenset({200, 307, 400, 403, 404, 405, 408, 409, 413, 415, 429, 431})
_FIELDS = ["code", "message", "param", "type"]
_MOST_TOLD = 4096


class Found(AssertionError):
    """The server did what it must not do."""


@dataclass(frozen=True)
class Answer:
    """One reply."""

    status: int
    headers: dict[str, str]
    body: bytes


class _Received:
    """Bytes that were received, as ``http.client`` wants a socket."""

    def __init__(self, data: bytes) -> None:
        self.file = io.BytesIO(data)
        self.file.close = lambda: None  # type: ignore[method-assign]

    def makefile(self, *_: object) -> io.BytesIO:
        return self.file


def answers(data: bytes, methods: tuple[str, ...] = (), *, whole: bool = True) -> list[Answer]:
    """The replies that ``data`` is, each checked. ``whole``: the last one must be complete."""
    received = _Received(data)
    found: list[Answer] = []
    while received.file.tell() < len(data):
        method = methods[len(found)] if len(found) < len(methods) else "GET"
        try:
            found.append(_next(received, method))
        except (http.client.HTTPException, ValueError) as error:
            if whole:
                raise Found(f"no whole reply: {error!r} in {data[:300]!r}") from None
            break
    return found


def _next(received: _Received, method: str) -> Answer:
    reply = http.client.HTTPResponse(received, method=method)  # type: ignore[arg-type]
    reply.begin()
    headers = {name.lower(): value for name, value in reply.getheaders()}
    if reply.status == 101:
        return Answer(101, headers, received.file.read())
    answer = Answer(reply.status, headers, reply.read())
    check(answer, has_body=method != "HEAD")
    return answer


def check(answer: Answer, *, has_body: bool = True) -> None:
    """Raises Found for what no reply may be."""
    if answer.status not in _STATUSES:
        raise Found(f"status {answer.status}: {answer.body[:500]!r}")
    if "x-request-id" not in answer.headers:
        raise Found(f"a reply without an id: {answer}")
    if answer.status >= 400 and has_body:
        if answer.headers.get("content-type") != "application/json":
            raise Found(f"an error that is no JSON: {answer}")
        check_error(json.loads(answer.body))


def check_error(body: Any) -> None:
    """Raises Found for what is not the one error shape."""
    if not isinstance(body, dict) or list(body) != ["error"] or sorted(body["error"]) != _FIELDS:
        raise Found(f"another shape of error: {body}")
    error = body["error"]
    told = isinstance(error["message"], str) and 0 < len(error["message"]) < _MOST_TOLD
    words = all(error[name] is None or isinstance(error[name], str) for name in ("param", "code"))
    if not (told and words and isinstance(error["type"], str)):
        raise Found(f"another shape of error: {body}")
