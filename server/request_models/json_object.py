"""Parses JSON objects that clients send."""

from __future__ import annotations

import asyncio
import codecs
import re
from collections.abc import Callable
from typing import TypeVar

from pydantic_core import from_json

from server.errors import ApiError, shown_value

T = TypeVar("T")

_LARGE_BYTES = 64 * 1024
"""Larger bodies are parsed off the event loop."""
_MAX_COMMAS = 100_000
"""No valid request has this many values. The parser holds the GIL while it creates them, even in another thread."""
_HIGH, _LOW = rb"\\u[dD][89abAB][\da-fA-F]{2}", rb"\\u[dD][c-fC-F][\da-fA-F]{2}"
_ESCAPES = re.compile(rb"\\\\|%b%b|(?P<lone>%b|%b)" % (_HIGH, _LOW, _HIGH, _LOW))
"""Escapes of a backslash, of a surrogate pair, or of a lone surrogate."""


def parse_json_object(raw: bytes) -> dict[str, object]:
    """Parse ``raw`` as a JSON object. Raises ApiError 400 or 413.

    A lone surrogate, which JavaScript writes when it cuts a string within an emoji, becomes U+FFFD.
    """
    raw = raw.removeprefix(codecs.BOM_UTF8)
    commas = raw.count(b",")
    if commas > _MAX_COMMAS:
        message = f"the body must have at most {_MAX_COMMAS} values, got more than {commas}"
        raise ApiError(message, status=413, code="request_too_large")
    try:
        fields = from_json(_without_lone_surrogates(raw), allow_inf_nan=False)
    except ValueError as error:
        raise ApiError(f"the body is not valid JSON: {error}", code="invalid_json") from None
    if not isinstance(fields, dict):
        raise ApiError(f"the body must be a JSON object, got {shown_value(fields)}", code="invalid_json")
    return fields


async def parse_body(parse: Callable[[bytes], T], raw: bytes) -> T:
    """Return ``parse(raw)``. Runs it in a thread if ``raw`` is large."""
    return await asyncio.to_thread(parse, raw) if len(raw) > _LARGE_BYTES else parse(raw)


def _without_lone_surrogates(raw: bytes) -> bytes:
    if b"\\u" not in raw:
        return raw
    return _ESCAPES.sub(lambda match: rb"\ufffd" if match["lone"] else match[0], raw)
