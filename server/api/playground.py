"""The playground at ``/``: a web page that synthesizes the text you type, and its static files."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

router = APIRouter(include_in_schema=False)

FOLDER = Path(__file__).parents[1] / "playground"
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "media-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Permissions-Policy": "microphone=(self)",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
"""The page runs only its own files, connects only to this server, and cannot be framed by another page."""


class _Files(StaticFiles):
    """The static files of the folder; an unknown name returns 404."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return the file, or 304 if the browser has it cached."""
        # Range requests are not supported for these small files, and Starlette's Range errors are not JSON.
        scope["headers"] = [(name, value) for name, value in scope["headers"] if name != b"range"]
        response = await super().get_response(path, scope)
        response.headers.update(_HEADERS)
        return response


_files = _Files(directory=FOLDER)


@router.api_route("/", methods=["GET", "HEAD"])
async def page(request: Request) -> Response:
    """Return the page."""
    return await _files.get_response("index.html", request.scope)


@router.api_route("/playground/{name}", methods=["GET", "HEAD"])
async def part(name: str, request: Request) -> Response:
    """Return a static file of the page."""
    return await _files.get_response(name, request.scope)
