"""Web pages of the server, with headers that let them run only files of this server."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

router = APIRouter(include_in_schema=False)

_SERVER = Path(__file__).parents[1]
PLAYGROUND_FOLDER = _SERVER / "playground"
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "media-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Permissions-Policy": "microphone=(self)",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
"""A page runs only files of this server, connects only to this server, and cannot be framed by another page."""


class _Files(StaticFiles):
    """Static files; an unknown name returns 404."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return the file, or 304 if the browser has it cached."""
        # Range requests are not supported for these small files, and Starlette's Range errors are not JSON.
        scope["headers"] = [(name, value) for name, value in scope["headers"] if name != b"range"]
        response = await super().get_response(path, scope)
        response.headers.update(_HEADERS)
        return response


_playground = _Files(directory=PLAYGROUND_FOLDER)
_api_reference = _Files(directory=_SERVER / "api_reference", packages=[("fastapi_swagger", "resources")])
"""The page and its script, and the files of Swagger UI, of which fastapi-swagger is a package."""


@router.api_route("/", methods=["GET", "HEAD"])
async def playground(request: Request) -> Response:
    """Return the playground, which synthesizes the text you type."""
    return await _playground.get_response("index.html", request.scope)


@router.api_route("/playground/{name}", methods=["GET", "HEAD"])
async def playground_file(name: str, request: Request) -> Response:
    """Return a static file of the playground."""
    return await _playground.get_response(name, request.scope)


@router.api_route("/docs", methods=["GET", "HEAD"])
async def api_reference(request: Request) -> Response:
    """Return the API reference: Swagger UI with the server's OpenAPI description."""
    return await _api_reference.get_response("index.html", request.scope)


@router.api_route("/docs/{name}", methods=["GET", "HEAD"])
async def api_reference_file(name: str, request: Request) -> Response:
    """Return a static file of the API reference."""
    return await _api_reference.get_response(name, request.scope)
