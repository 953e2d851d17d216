"""Runs one inference request: parses it, synthesizes it, and sends its responses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tritonclient.grpc.service_pb2 import ModelInferRequest, ModelInferResponse

from server.services import CurrentServices, Services
from server.synthesis.delivery import deliver, recorded, within
from server.synthesis.utterance import Utterance
from server.telemetry.record import RequestRecord
from server.telemetry.request_log import MAX_TRACE, valid_request_id
from server.triton.calls import Caller
from server.triton.requests import InferRequest, parse_infer_request
from server.triton.responses import Responses

METHOD = "GRPC"
"""The ``method`` of a record. Its ``path`` is the name of the call."""
_LARGE_BYTES = 64 * 1024
"""Larger requests are parsed off the event loop."""


class Inference:
    """One inference request of ``caller``.

    call: the name of the gRPC call. stream: whether the audio is sent as it is made.
    """

    def __init__(
        self, request: ModelInferRequest, call: str, caller: Caller, current: CurrentServices, *, stream: bool
    ) -> None:
        self._request, self._caller, self._current, self._stream = request, caller, current, stream
        self.record = RequestRecord(
            valid_request_id(request.id),
            METHOD,
            call,
            caller.metadata.get("traceparent", "")[:MAX_TRACE],
            caller.client,
            caller.owner,
            caller.key,
            speech=True,
        )
        self.responses = Responses(request.model_name, request.id, ())

    async def run(self, send: Callable[[ModelInferResponse], Awaitable[None]], is_stopping: Callable[[], bool]) -> None:
        """Synthesize, and ``send`` each response. Raises ApiError, EngineError or ClientDisconnected.

        is_stopping: whether a cancellation comes from the server, not from the client.
        """
        with self._current.use() as services, recorded(self.record, services, is_stopping):
            account = services.bodies.account(self._caller.client)
            try:
                account.resize(self._request.ByteSize())
                parsed = await self._parsed(services)
                model = services.model(parsed.body.model)
                self.responses = Responses(model.name, self._request.id, parsed.outputs, parsed.body.ignored)
                recipient = _Recipient(self.responses, send, services.settings.limits.stalled_seconds, parsed)
                await deliver(parsed.body, model, services, self.record, self._caller.client, recipient)
            finally:
                account.close()

    async def _parsed(self, services: Services) -> InferRequest:
        if self._request.ByteSize() > _LARGE_BYTES:
            return await asyncio.to_thread(self._parse, services)
        return self._parse(services)

    def _parse(self, services: Services) -> InferRequest:
        return parse_infer_request(self._request, services.settings, stream=self._stream)


class _Recipient:
    """Sends the audio of an utterance as responses. A complete one is a single response."""

    def __init__(
        self,
        responses: Responses,
        send: Callable[[ModelInferResponse], Awaitable[None]],
        stalled_seconds: float,
        parsed: InferRequest,
    ) -> None:
        self._responses, self._send_response = responses, send
        self._stalled_seconds, self._parsed = stalled_seconds, parsed
        self._pieces: list[bytes] = []

    async def start(self, utterance: Utterance) -> None:
        """Note the sample rate."""
        self._responses.sample_rate = utterance.sample_rate

    async def send(self, audio: bytes) -> None:
        """Send a response, or keep the audio of a request that does not stream."""
        if self._parsed.body.stream:
            await self._send(self._responses.audio(audio))
        else:
            self._pieces.append(audio)

    async def finish(self, utterance: Utterance) -> None:
        """Send the final response if the client wants it, or the only one of a request that does not stream."""
        assert utterance.completion is not None
        if not self._parsed.body.stream:
            await self._send(self._responses.audio(b"".join(self._pieces)))
        elif self._parsed.final_response:
            await self._send(self._responses.final(utterance.completion.finish_reason.value))

    async def _send(self, response: ModelInferResponse) -> None:
        await within(self._stalled_seconds, self._send_response(response))
