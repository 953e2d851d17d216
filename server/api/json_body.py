"""Reads the body of a request as a JSON object."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from pydantic_core import from_json
from starlette.requests import ClientDisconnect

from server.errors import ApiError, ClientDisconnected, shown

LARGE = 64 * 1024
"""Bodies above this many bytes are parsed off the event loop."""

_MOST_COMMAS = 100_000
"""No valid request has this many values. The parser holds the GIL while it creates them, even in another thread."""


async def json_bytes(request: Request) -> bytes:
    """Return the complete body of a JSON request. Raises ApiError 413 or 415, or ClientDisconnected."""
    _check_headers(request)
    try:
        raw = await request.body()
    except ClientDisconnect:
        raise ClientDisconnected from None
    return raw


def _check_headers(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        named = f"not '{shown(kind)}'" if kind else "and its Content-Type must say so"
        raise ApiError(f"The body must be application/json, {named}.", status=415, code="unsupported_media_type")
    packed = request.headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("", "identity"):
        message = f"The body must not be compressed; its Content-Encoding is '{shown(packed)}'."
        raise ApiError(message, status=415, code="unsupported_media_type")


def json_object(raw: bytes) -> dict[str, object]:
    """Parse ``raw`` as a JSON object. Raises ApiError 400 or 413."""
    if raw.count(b",") > _MOST_COMMAS:
        raise ApiError("The body holds too many values.", status=413, code="request_too_large")
    try:
        fields = from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise ApiError(f"The body is not valid JSON: {error}.", code="invalid_json") from None
    if not isinstance(fields, dict):
        raise ApiError("The body must be a JSON object.", code="invalid_json")
    return fields


JsonBytes = Annotated[bytes, Depends(json_bytes)]
