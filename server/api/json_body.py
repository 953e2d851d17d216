"""Reads the body of a request that must be JSON."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from starlette.requests import ClientDisconnect

from server.errors import ApiError, ClientDisconnected, shown


async def json_bytes(request: Request) -> bytes:
    """Return the complete body of a JSON request. Raises ApiError 413 or 415, or ClientDisconnected."""
    _check_headers(request)
    try:
        raw = await request.body()
    except ClientDisconnect:
        raise ClientDisconnected from None
    return raw


def _check_headers(request: Request) -> None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        message = f"Content-Type must be application/json, got '{shown(media_type)}'"
        raise ApiError(message, status=415, code="unsupported_media_type")
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        message = f"Content-Encoding must be identity (no compression), got '{shown(encoding)}'"
        raise ApiError(message, status=415, code="unsupported_media_type")


JsonBytes = Annotated[bytes, Depends(json_bytes)]
