"""``ModelStreamInfer``: a stream of requests whose responses, many for each, are sent as they are made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from grpc.aio import InternalError, ServicerContext
from tritonclient.grpc.service_pb2 import ModelInferRequest, ModelInferResponse, ModelStreamInferResponse

from engine.errors import EngineError
from server.errors import ApiError, ClientDisconnected, failure_of
from server.services import CurrentServices
from server.synthesis.delivery import within
from server.triton.calls import Caller
from server.triton.inference import Inference

_STATUS_HEADER = "triton_grpc_error"
"""Triton's metadata with which a client asks that an error ends the stream with a status."""


class InferStream:
    """One call of ``ModelStreamInfer``. Its requests run at the same time, as far as the admission queue allows.

    is_stopping: whether a cancellation comes from the server, not from the client.
    """

    def __init__(
        self, context: ServicerContext, caller: Caller, current: CurrentServices, is_stopping: Callable[[], bool]
    ) -> None:
        self._context, self._caller, self._current, self._is_stopping = context, caller, current, is_stopping
        self._errors_end_stream = caller.metadata.get(_STATUS_HEADER) == "true"
        self._writing = asyncio.Lock()
        self._running: set[asyncio.Task[None]] = set()

    async def run(self, requests: AsyncIterator[ModelInferRequest]) -> None:
        """Answer ``requests`` until the client has sent its last one and all are answered.

        Raises the error that ends the stream: of a client that stopped reading, of an idle stream, and any error if
        the client asks for it. Cancelling this aborts all utterances at once.
        """
        receiving: asyncio.Future[ModelInferRequest | None] | None = None
        try:
            more = True
            while more or self._running:
                if more and receiving is None:
                    receiving = asyncio.ensure_future(_next(requests))
                await self._wait({receiving} if receiving is not None else set())
                if receiving is not None and receiving.done():
                    request, receiving = receiving.result(), None
                    more = request is not None
                    if request is not None:
                        self._running.add(asyncio.create_task(self._answer(request)))
        finally:
            await _cancel([*self._running, *([receiving] if receiving is not None else [])])

    async def _wait(self, receiving: set[asyncio.Future[ModelInferRequest | None]]) -> None:
        """Wait for a request, or for the end of a running one. Raises its error."""
        idle_seconds = self._current.services.settings.limits.live_idle_seconds
        timeout = None if self._running else idle_seconds
        done, _ = await asyncio.wait(receiving | self._running, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            message = f"no request arrived for {idle_seconds:g} s (limits.live_idle_seconds); open a new stream"
            raise ApiError(message, status=408, code="session_idle")
        ended = self._running & done
        self._running -= ended
        for task in ended:
            task.result()

    async def _answer(self, request: ModelInferRequest) -> None:
        inference = Inference(request, "ModelStreamInfer", self._caller, self._current, stream=True)
        try:
            await inference.run(self._send, self._is_stopping)
        except ClientDisconnected:
            raise
        except Exception as error:
            if self._errors_end_stream or not isinstance(error, ApiError | EngineError):
                raise
            failed = self._write(inference.responses.error(failure_of(error)))
            await within(self._current.services.settings.limits.stalled_seconds, failed)

    async def _send(self, response: ModelInferResponse) -> None:
        await self._write(ModelStreamInferResponse(infer_response=response))

    async def _write(self, response: ModelStreamInferResponse) -> None:
        async with self._writing:
            try:
                await self._context.write(response)
            except InternalError as error:  # gRPC raises it when the client cancels while a response is sent
                raise ClientDisconnected from error


async def _next(requests: AsyncIterator[ModelInferRequest]) -> ModelInferRequest | None:
    return await anext(requests, None)


async def _cancel(tasks: list[asyncio.Future[None] | asyncio.Future[ModelInferRequest | None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
