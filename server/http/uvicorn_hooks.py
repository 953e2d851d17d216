"""The undocumented parts of uvicorn that this package uses, and the check that the installed uvicorn has them.

``HttpConnection`` and ``WebSocketConnection`` derive from uvicorn's protocol classes, ``Server`` from its server class.
uvicorn offers no public hook for limits on incomplete requests, for the format of its error responses, or for what
happens on a signal. Everything in this list can change in any release of uvicorn.
"""

from __future__ import annotations

import uvicorn

SUPPORTED = "uvicorn>=0.53,<0.55"
"""The same range as in pyproject.toml: the releases with which the tests were run."""


class UnsupportedUvicorn(ImportError):
    """The installed uvicorn lacks something that this package uses. The message says what, and which range to use."""

    def __init__(self, missing: str) -> None:
        super().__init__(
            f"uvicorn {uvicorn.__version__} is not supported: {missing}. Install a supported release: "
            f"pip install '{SUPPORTED}'"
        )


try:
    from uvicorn.protocols.http.h11_impl import H11Protocol as H11Protocol
    from uvicorn.protocols.http.h11_impl import RequestResponseCycle
    from uvicorn.protocols.websockets.websockets_sansio_impl import (
        WebSocketsSansIOProtocol as WebSocketsSansIOProtocol,
    )
except ImportError as error:
    raise UnsupportedUvicorn(str(error)) from None

_USED = {
    H11Protocol: {
        "__init__": "conn app_state cycle scope transport client",
        "handle_events": "conn app_state cycle scope next_event send_400_response",
    },
    RequestResponseCycle: {
        "__init__": "disconnected message_event",
        "send": "disconnected",
        "receive": "disconnected message_event",
    },
    WebSocketsSansIOProtocol: {
        "__init__": "conn transport client queue frames curr_msg_data_type writable handshake_initiated "
        "handshake_complete close_sent close_timeout close_timer",
        "data_received": "conn receive_data handle_events",
        "handle_events": "events_received handle_ping",
        "handle_text": "send_receive_event_to_app",
        "handle_cont": "send_receive_event_to_app",
        "handle_ping": "conn data_to_send",
        "handle_parser_exception": "conn data_to_send",
        "run_asgi": "close_timer",
    },
    uvicorn.Server: {
        "__init__": "config server_state should_exit force_exit",
        "serve": "capture_signals",
        "_serve": "lifespan startup main_loop shutdown",
        "main_loop": "on_tick",
        "on_tick": "should_exit",
        "shutdown": "timeout_graceful_shutdown lifespan force_exit server_state connections tasks",
    },
}
"""Class -> method -> names that the method's code must use: attributes that this package reads or replaces, and methods
that it overrides."""


def check_uvicorn() -> None:
    """Raise UnsupportedUvicorn if the installed uvicorn lacks something that this package uses."""
    for owner, methods in _USED.items():
        for method, names in methods.items():
            where = f"{owner.__name__}.{method}()"
            code = getattr(getattr(owner, method, None), "__code__", None)
            if code is None:
                raise UnsupportedUvicorn(f"it has no {where}")
            for name in names.split():
                if name not in code.co_names:
                    raise UnsupportedUvicorn(f"{where} does not use '{name}'")
