"""The gRPC listener: starts gRPC's server, and limits and closes connections."""

from __future__ import annotations

import socket

import grpc.aio
from tritonclient.grpc.service_pb2_grpc import add_GRPCInferenceServiceServicer_to_server

from server.http.connection_table import ConnectionTable
from server.services import CurrentServices
from server.triton.authentication import KeyInterceptor
from server.triton.relay import Relay
from server.triton.service import InferenceService

_CLOSE_SECONDS = 1.0
"""Upper bound on how long the end of the listener waits for clients that do not read."""
_KEEPALIVE_SECONDS = 20.0
"""Interval of pings, and timeout for their answers: a client whose machine is gone frees its slot after both."""
_LOOPBACK = "127.0.0.1:0"
_CALLS_PER_REQUEST = 2
"""Calls that may be open for each request that the server accepts: streams may be idle. Each can hold a message of up
to ``limits.max_body_bytes`` before it is counted."""


class TritonListener:
    """Serves the KServe v2 protocol on a bound socket.

    gRPC cannot use a socket that is open already. It listens on a free port of the loopback address, and a ``Relay``
    passes the connections to it.

    connections: the open connections of the server, whose limits these connections share.
    """

    def __init__(self, bound: socket.socket, connections: ConnectionTable) -> None:
        self._bound, self._connections = bound, connections

    async def start(self, current: CurrentServices) -> None:
        """Accept connections. Raises OSError."""
        limits = current.services.settings.limits
        requests = sum(model.admission.max_running + limits.max_waiting for model in current.services.models)
        max_calls = min(_CALLS_PER_REQUEST * requests, self._connections.max_connections)
        options = {
            "grpc.so_reuseport": 0,
            "grpc.max_allowed_incoming_connections": self._connections.max_connections,
            "grpc.max_receive_message_length": limits.max_body_bytes,
            "grpc.max_send_message_length": -1,
            "grpc.max_concurrent_streams": max_calls,
            "grpc.server_handshake_timeout_ms": _milliseconds(limits.request_seconds),
            "grpc.max_connection_idle_ms": _milliseconds(limits.request_seconds),
            "grpc.keepalive_time_ms": _milliseconds(_KEEPALIVE_SECONDS),
            "grpc.keepalive_timeout_ms": _milliseconds(_KEEPALIVE_SECONDS),
            "grpc.http2.min_ping_interval_without_data_ms": 5_000,
        }
        self._relay = Relay(self._bound, self._connections)
        self._service = InferenceService(current, self._relay)
        self._server = grpc.aio.server(
            interceptors=[KeyInterceptor(current.services.keys)],
            options=list(options.items()),
            maximum_concurrent_rpcs=max_calls,
        )
        add_GRPCInferenceServiceServicer_to_server(self._service, self._server)
        try:
            port = self._server.add_insecure_port(_LOOPBACK)
        except RuntimeError as error:
            raise OSError(f"gRPC cannot listen on {_LOOPBACK}: {error}") from None
        await self._server.start()
        await self._relay.start(port)

    async def close(self) -> None:
        """Stop listening, and end calls in flight with the error ``stopped``."""
        await self._service.stop(_CLOSE_SECONDS)
        await self._server.stop(None)
        self._relay.close()


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
