"""What a page can be asked with: routes know only of their own method, and a page may have several."""

from __future__ import annotations

from starlette.requests import Request
from starlette.routing import Match

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def allowed_methods(request: Request) -> str:
    """The ``Allow`` of a 405 for ``request``."""

    def answers(method: str) -> bool:
        scope = {**request.scope, "method": method}
        return any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)

    return ", ".join(filter(answers, _METHODS))
