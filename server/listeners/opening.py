"""Opens the sockets of all listeners, and creates the listeners beside HTTP that the settings ask for."""

from __future__ import annotations

import importlib.util
import socket
import sys
from dataclasses import dataclass

from server.http.connection_table import ConnectionTable
from server.listeners.listener import Listener
from server.listeners.sockets import authority, is_loopback, listen, listen_first
from server.settings import Settings, SettingsError


@dataclass(frozen=True, slots=True)
class Sockets:
    """The listening sockets of a server. They outlive the HTTP process, which may be restarted.

    grpc, wyoming: None without this listener.
    """

    http: socket.socket
    grpc: socket.socket | None = None
    wyoming: socket.socket | None = None

    @property
    def all(self) -> list[socket.socket]:
        """All sockets."""
        return [each for each in (self.http, self.grpc, self.wyoming) if each is not None]

    @property
    def names(self) -> dict[str, str]:
        """The address of each listener beside HTTP, by the name of its protocol."""
        bound = {"gRPC": self.grpc, "Wyoming": self.wyoming}
        schemes = {"gRPC": "grpc", "Wyoming": "tcp"}
        return {name: f"{schemes[name]}://{authority(each)}" for name, each in bound.items() if each is not None}


def open_sockets(settings: Settings, *, protected: bool) -> Sockets:
    """Return the sockets for ``settings``. protected: whether the server has API keys.

    Raises OSError for an unusable address, and SettingsError when other machines could reach a listener without a
    key although that is not allowed, or when the package of a listener is not installed.
    """
    stalled_seconds = settings.limits.stalled_seconds
    if settings.http_processes > 1 and sys.platform != "linux":
        raise SettingsError("http_processes: only Linux distributes connections over several processes")
    open_http = listen if settings.http_processes == 1 else listen_first
    http = open_http(settings.host, settings.port, stalled_seconds)
    _check_exposure("host", http, settings, protected)
    return Sockets(http, _grpc_socket(settings, protected, stalled_seconds), _wyoming_socket(settings, stalled_seconds))


def _check_exposure(name: str, bound: socket.socket, settings: Settings, protected: bool) -> None:
    """Raise SettingsError when other machines can reach a server without keys, unless that is explicitly allowed."""
    if protected or settings.allow_unauthenticated or is_loopback(bound):
        return
    raise SettingsError(
        f"{name}: other machines can reach {bound.getsockname()[0]}, and the server has no API key: set "
        "SONANT_API_KEY or keys_file, or allow requests without a key with --allow-unauthenticated "
        "(allow_unauthenticated: true)"
    )


def _grpc_socket(settings: Settings, protected: bool, stalled_seconds: float) -> socket.socket | None:
    grpc = settings.grpc
    if grpc.port is None:
        return None
    _require("tritonclient", "grpc")
    bound = listen(settings.host if grpc.host is None else grpc.host, grpc.port, stalled_seconds)
    _check_exposure("grpc.host", bound, settings, protected)
    return bound


def _wyoming_socket(settings: Settings, stalled_seconds: float) -> socket.socket | None:
    wyoming = settings.wyoming
    if wyoming.port is None:
        return None
    _require("wyoming", "wyoming")
    bound = listen(wyoming.host, wyoming.port, stalled_seconds)
    if not (wyoming.allow_unauthenticated or is_loopback(bound)):
        raise SettingsError(
            f"wyoming.host: other machines can reach {wyoming.host}, and the Wyoming protocol has no API keys: set it "
            "to 127.0.0.1, or allow everyone who can reach it with wyoming.allow_unauthenticated: true"
        )
    return bound


def _require(module: str, extra: str) -> None:
    """Raise SettingsError if ``module`` is not installed."""
    if importlib.util.find_spec(module) is None:
        raise SettingsError(f"{extra}.port: the package {module} is not installed; pip install 'sonant[{extra}]'")


def create_listeners(settings: Settings, sockets: Sockets, connections: ConnectionTable) -> list[Listener]:
    """Return the listeners beside HTTP. connections: the open connections of the server.

    Call it in the HTTP process: gRPC does not survive a fork.
    """
    listeners: list[Listener] = []
    if sockets.grpc is not None:
        from server.triton.listener import TritonListener  # needs the extra

        listeners.append(TritonListener(sockets.grpc, connections))
    if sockets.wyoming is not None:
        from server.wyoming.listener import WyomingListener  # needs the extra

        listeners.append(WyomingListener(sockets.wyoming, connections))
    return listeners
