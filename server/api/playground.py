"""The playground at ``/``: a page to type in and to listen to, and the files it is made of."""

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
"""Nothing but the page's own files runs in it, nothing leaves it but to this server, and no other page frames it."""


class _Files(StaticFiles):
    """The files of the folder; an unknown name is a 404."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file, or 304 where the browser has it."""
        # A part of so small a file is nobody's need, and Starlette's refusals of a Range are no JSON.
        scope["headers"] = [(name, value) for name, value in scope["headers"] if name != b"range"]
        response = await super().get_response(path, scope)
        response.headers.update(_HEADERS)
        return response


_files = _Files(directory=FOLDER)


@router.api_route("/", methods=["GET", "HEAD"])
async def page(request: Request) -> Response:
    """The page."""
    return await _files.get_response("index.html", request.scope)


@router.api_route("/playground/{name}", methods=["GET", "HEAD"])
async def part(name: str, request: Request) -> Response:
    """A file that the page asks for."""
    return await _files.get_response(name, request.scope)
