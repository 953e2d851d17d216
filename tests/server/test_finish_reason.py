"""Raw audio reports its finish reason."""

from __future__ import annotations

import json
from typing import Any

import h11
import httpx
import pytest

from tests.server.raw_http import connect
from tests.server.serving import SPEECH, Serving, speech

LONG = "Good morning to all of you. I am glad that you could come today."
HEADER = b"x-finish-reason"


def stream_with_h11(serving: Serving, body: dict[str, Any], *extra: tuple[str, str]) -> tuple[h11.Response, list[Any]]:
    """The head of the response and its trailers, parsed by an independent HTTP implementation."""
    data = json.dumps(body).encode()
    client = h11.Connection(h11.CLIENT)
    headers = [("Host", "x"), ("Content-Type", "application/json"), ("Content-Length", str(len(data))), *extra]
    request = client.send(h11.Request(method="POST", target=SPEECH, headers=headers))
    request += client.send(h11.Data(data=data)) + client.send(h11.EndOfMessage())
    with connect(serving, request) as connection:
        head = None
        while True:
            match client.next_event():
                case h11.NEED_DATA:
                    client.receive_data(connection.recv(65_536))
                case h11.Response() as head:
                    pass
                case h11.EndOfMessage() as end:
                    assert head is not None
                    return head, list(end.headers)


@pytest.mark.parametrize("fields", [{}, {"split": "sentence", "input": LONG}, {"response_format": "mp3"}])
def test_a_complete_response_has_a_header(client: httpx.Client, fields: dict[str, Any]) -> None:
    answer = client.post(SPEECH, json=speech(stream=False, **fields))
    assert answer.status_code == 200
    assert answer.headers["X-Finish-Reason"] == "length"


@pytest.mark.parametrize("fields", [{}, {"split": "sentence", "input": LONG}])
def test_a_stream_has_a_trailer_for_clients_that_accept_it(serving: Serving, fields: dict[str, Any]) -> None:
    head, trailers = stream_with_h11(serving, speech(**fields), ("TE", "deflate;q=0.5, trailers"))
    assert head.status_code == 200
    assert (b"trailer", b"X-Finish-Reason") in list(head.headers)
    assert trailers == [(HEADER, b"length")]


def test_other_clients_get_no_trailer(serving: Serving) -> None:
    """Simple keep-alive clients would read a trailer as the beginning of the next response."""
    head, trailers = stream_with_h11(serving, speech())
    assert b"trailer" not in dict(list(head.headers))
    assert trailers == []


def test_events_have_no_trailer(serving: Serving) -> None:
    _, trailers = stream_with_h11(serving, speech(stream_format="sse"), ("TE", "trailers"))
    assert trailers == []


def test_an_error_has_no_trailer(serving: Serving) -> None:
    head, trailers = stream_with_h11(serving, speech(input=""), ("TE", "trailers"))
    assert (head.status_code, trailers) == (400, [])
