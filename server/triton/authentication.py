"""Refuses calls without a valid API key before their message is read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import grpc
from grpc.aio import ServerInterceptor, ServicerContext

from server.errors import ApiError, failure_of
from server.keys.valid_keys import Keys
from server.triton.calls import abort, key_of, text_metadata

_OPEN_CALLS = ("/ServerLive", "/ServerReady")
"""Calls that need no key, as ``/health`` and ``/ready``. Their messages are empty."""


class KeyInterceptor(ServerInterceptor):
    """Ends calls that send none of ``keys``. Otherwise callers without a key could fill the memory with messages."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler:
        """Return the handler of the call."""
        if not handler_call_details.method.endswith(_OPEN_CALLS):
            try:
                key_of(text_metadata(handler_call_details.invocation_metadata), self._keys)
            except ApiError as error:
                # A handler of streams, because that of a unary call starts after the message was read.
                return grpc.stream_stream_rpc_method_handler(partial(_refuse, error))
        return await continuation(handler_call_details)


async def _refuse(error: ApiError, requests: AsyncIterator[object], context: ServicerContext) -> None:
    await abort(context, failure_of(error))
