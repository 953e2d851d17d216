"""WebSocket connections: a handshake that fails gets the one error shape."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import CloseCode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from server.errors import Failure
from server.request_log import new_request_id

_CLOSE_SECONDS = 2.0
"""A client that does not answer the close is let go after so long."""


class WebSocketConnection(WebSocketsSansIOProtocol):
    """uvicorn's. It leaves a handshake that cannot be read open and unanswered for ever."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.conn = _Handshake(max_size=config.ws_max_size, logger=logging.getLogger("uvicorn.error"))
        self.close_timeout = _CLOSE_SECONDS
        self.lost = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        """More of the handshake, or frames."""
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self.transport.write(self.conn.reject(400, str(self.conn.handshake_exc)).serialize())
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        super().connection_lost(exc)
        self.lost.set()

    def send_receive_event_to_app(self) -> None:
        """A message is complete. Text that is none ends the session, and is no failure of the server."""
        if self.curr_msg_data_type == "bytes" or _is_text(b"".join(self.frames)):
            super().send_receive_event_to_app()
            return
        self.frames = []
        if self.conn.state is State.OPEN:  # else the client's own close is next
            self.conn.send_close(CloseCode.INVALID_DATA)
            self.handle_parser_exception()


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


class _Handshake(ServerProtocol):
    def reject(self, status: int, text: str) -> Response:
        """The refusal of a handshake."""
        response = super().reject(status, text)
        code = "not_found" if status == 404 else "invalid_handshake"
        failure = Failure(status, f"The WebSocket handshake failed: {text.strip()}", code=code)
        response.body = bytes(failure.response().body)
        response.headers["X-Request-Id"] = new_request_id()
        for name, value in (("Content-Length", str(len(response.body))), ("Content-Type", "application/json")):
            del response.headers[name]
            response.headers[name] = value
        return response
