"""The gRPC service: the calls of the KServe v2 protocol and of Triton that this server supports."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from grpc.aio import ServicerContext
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceServicer

from engine.errors import EngineError
from server.errors import ApiError, ClientDisconnected, failure_of
from server.services import CurrentServices, Services
from server.triton.calls import Caller, abort, caller_of
from server.triton.inference import Inference
from server.triton.model import check_version, config_of, metadata_of
from server.triton.relay import Relay
from server.triton.stream import InferStream
from server.version import version

log = logging.getLogger("sonant.requests")

_EXTENSIONS = ("model_configuration",)

T = TypeVar("T")


class InferenceService(GRPCInferenceServiceServicer):
    """Answers the calls. Calls of Triton that it lacks, such as those for shared memory, end as UNIMPLEMENTED."""

    def __init__(self, current: CurrentServices, relay: Relay) -> None:
        self._current, self._relay = current, relay
        self._calls: set[asyncio.Task[object]] = set()
        self._stopping = False

    @property
    def _services(self) -> Services:
        """The services of a call that uses no engine."""
        return self._current.services

    async def stop(self, seconds: float) -> None:
        """End the calls in flight with the error ``stopped``, and wait up to ``seconds`` for them."""
        self._stopping = True
        for task in self._calls:
            task.cancel()
        if self._calls:
            await asyncio.wait(self._calls, timeout=seconds)

    async def ServerLive(self, request: pb.ServerLiveRequest, context: ServicerContext) -> pb.ServerLiveResponse:
        """Return that the server is up. Needs no key, as ``/health``."""
        return pb.ServerLiveResponse(live=True)

    async def ServerReady(self, request: pb.ServerReadyRequest, context: ServicerContext) -> pb.ServerReadyResponse:
        """Return whether the server can synthesize speech. Needs no key, as ``/ready``."""
        return pb.ServerReadyResponse(ready=_holds(self._services.check_ready))

    async def ServerMetadata(
        self, request: pb.ServerMetadataRequest, context: ServicerContext
    ) -> pb.ServerMetadataResponse:
        """Return the name and the version of the server."""
        await self._authorize(context)
        return pb.ServerMetadataResponse(name="sonant", version=version(), extensions=_EXTENSIONS)

    async def ModelReady(self, request: pb.ModelReadyRequest, context: ServicerContext) -> pb.ModelReadyResponse:
        """Return whether the model can synthesize speech."""
        await self._authorize(context, request)
        return pb.ModelReadyResponse(ready=_holds(self._services.model(request.name or None).check_ready))

    async def ModelMetadata(
        self, request: pb.ModelMetadataRequest, context: ServicerContext
    ) -> pb.ModelMetadataResponse:
        """Return the inputs and outputs of the model."""
        await self._authorize(context, request)
        return metadata_of(self._services.model(request.name or None))

    async def ModelConfig(self, request: pb.ModelConfigRequest, context: ServicerContext) -> pb.ModelConfigResponse:
        """Return the configuration of the model. Clients read from it that the model is decoupled."""
        await self._authorize(context, request)
        return config_of(self._services.model(request.name or None))

    async def ModelInfer(self, request: pb.ModelInferRequest, context: ServicerContext) -> pb.ModelInferResponse:
        """Return the complete audio in one response."""
        sent: list[pb.ModelInferResponse] = []

        async def keep(response: pb.ModelInferResponse) -> None:
            sent.append(response)

        async def infer() -> pb.ModelInferResponse:
            caller = self._caller(context)
            inference = Inference(request, "ModelInfer", caller, self._current, stream=False)
            await inference.run(keep, lambda: self._stopping)
            return sent[0]

        return await self._call(infer(), context)

    async def ModelStreamInfer(
        self, request_iterator: AsyncIterator[pb.ModelInferRequest], context: ServicerContext
    ) -> None:
        """Send the audio of each request as it is made."""

        async def stream() -> None:
            caller = self._caller(context)
            await InferStream(context, caller, self._current, lambda: self._stopping).run(request_iterator)

        await self._call(stream(), context)

    async def _authorize(
        self,
        context: ServicerContext,
        request: pb.ModelReadyRequest | pb.ModelMetadataRequest | pb.ModelConfigRequest | None = None,
    ) -> None:
        """End the call with a status unless its key is valid and the model of ``request`` exists."""
        try:
            self._caller(context)
            if request is not None:
                self._services.model(request.name or None)
                check_version(request.version)
        except ApiError as error:
            await abort(context, failure_of(error))

    def _caller(self, context: ServicerContext) -> Caller:
        return caller_of(context, self._services.keys, self._relay.host_of(context.peer()))

    async def _call(self, work: Awaitable[T], context: ServicerContext) -> T:
        """Await ``work``. End the call with a status if it fails."""
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        try:
            with self._relay.busy(context.peer()):
                return await work
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and not self._stopping:
                raise  # the client cancelled the call
            if not isinstance(error, ApiError | ClientDisconnected | EngineError | asyncio.CancelledError):
                log.exception("peer=%s unexpected error", context.peer())
            await abort(context, failure_of(error))
        finally:
            self._calls.discard(task)


def _holds(check: Callable[[], None]) -> bool:
    """Return whether ``check`` raises no error."""
    try:
        check()
    except (ApiError, EngineError):
        return False
    return True
