"""The gRPC listener: accepts connections, and limits and closes them."""

from __future__ import annotations

import socket

import grpc.aio
from tritonclient.grpc.service_pb2_grpc import add_GRPCInferenceServiceServicer_to_server

from server.listeners.sockets import authority
from server.services import CurrentServices
from server.triton.authentication import KeyInterceptor
from server.triton.service import InferenceService

_CLOSE_SECONDS = 1.0
"""Upper bound on how long the end of the listener waits for clients that do not read."""
_KEEPALIVE_SECONDS = 20.0
"""Interval of pings, and timeout for their answers: a client whose machine is gone frees its slot after both."""


class TritonListener:
    """Serves the KServe v2 protocol on the address of ``reserved``.

    gRPC opens the listening socket by itself, because it cannot use one that is open already.

    Args:
        reserved: a socket that is bound with SO_REUSEPORT and does not listen.
        max_calls: maximum number of calls at the same time.
    """

    def __init__(self, reserved: socket.socket, max_calls: int) -> None:
        self._reserved, self._max_calls = reserved, max_calls

    async def start(self, current: CurrentServices) -> None:
        """Accept connections. Raises OSError."""
        limits = current.services.settings.limits
        options = {
            "grpc.so_reuseport": 1,
            "grpc.max_receive_message_length": limits.max_body_bytes,
            "grpc.max_send_message_length": -1,
            "grpc.max_concurrent_streams": self._max_calls,
            "grpc.server_handshake_timeout_ms": _milliseconds(limits.request_seconds),
            "grpc.max_connection_idle_ms": _milliseconds(limits.request_seconds),
            "grpc.keepalive_time_ms": _milliseconds(_KEEPALIVE_SECONDS),
            "grpc.keepalive_timeout_ms": _milliseconds(_KEEPALIVE_SECONDS),
            "grpc.http2.min_ping_interval_without_data_ms": 5_000,
        }
        self._service = InferenceService(current)
        self._server = grpc.aio.server(
            interceptors=[KeyInterceptor(current.services.keys)],
            options=list(options.items()),
            maximum_concurrent_rpcs=self._max_calls,
        )
        add_GRPCInferenceServiceServicer_to_server(self._service, self._server)
        address = authority(self._reserved)
        try:
            self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {address}: {error}") from None
        await self._server.start()

    async def close(self) -> None:
        """Stop listening, and end calls in flight with the error ``stopped``."""
        await self._service.stop(_CLOSE_SECONDS)
        await self._server.stop(None)


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
