"""Endpoints of OpenAI's audio API that this server does not support: each returns 404 with the reason."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.requests import ClientDisconnect

from server.errors import ApiError, ClientDisconnected

router = APIRouter(prefix="/v1/audio", include_in_schema=False)


@router.post("/transcriptions")
@router.post("/translations")
async def refuse_transcription(request: Request) -> None:
    """Return 404: there is no transcription or translation of recordings."""
    await _discard_body(request)
    raise _refusal("transcription and translation are not supported; this server only synthesizes speech")


@router.api_route("/voice_consents", methods=["GET", "POST"])
@router.api_route("/voice_consents/{consent}", methods=["GET", "POST", "DELETE"])
async def refuse_consents(request: Request) -> None:
    """Return 404: the server does not store recordings of a speaker's consent."""
    await _discard_body(request)
    raise _refusal(
        "recordings of consent are not stored; store them yourself and send their id as field consent of a voice"
    )


def _refusal(message: str) -> ApiError:
    return ApiError(message, status=404, code="not_supported")


async def _discard_body(request: Request) -> None:
    """Read and discard the body: a client that is still sending when the response arrives may lose the response."""
    try:
        async for _ in request.stream():
            pass
    except ClientDisconnect:
        raise ClientDisconnected from None
