"""The response to a speech request: raw chunks, server-sent events, or one whole body."""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from engine.errors import EngineError
from server.errors import ApiError, ClientDisconnected
from server.http.clients import client_of
from server.http.disconnect import cancel_on_disconnect
from server.http.response_framing import TRAILERS
from server.request_models.field_names import ignored_header
from server.request_models.speech import SpeechBody
from server.served_model import ServedModel
from server.services import Services
from server.synthesis.admission_ticket import AdmissionTicket
from server.synthesis.sse import CONTENT_TYPE, BrokenStream, error_event, speech_events, with_pings
from server.synthesis.streaming import Headers, ResponseWriter
from server.synthesis.synthesize import start_synthesis
from server.synthesis.utterance import Utterance
from server.telemetry.record import RequestRecord

FINISH_REASON = "X-Finish-Reason"
"""Header with ``stop``, or ``length`` when the speech was cut at its length limit."""


class SpeechResponse(Response):
    """Synthesizes speech and sends it.

    Starlette calls a response after the route function has returned, when all contexts that the function entered are
    closed. So the response itself enters those that must last as long as the stream: the admission ticket, and the
    utterance. Before the status line is sent it raises errors, which then get a status of their own.
    """

    def __init__(self, body: SpeechBody, model: ServedModel, services: Services, record: RequestRecord) -> None:
        super().__init__()
        self._body, self._model, self._services, self._record = body, model, services, record

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait until the request runs, synthesize and send.

        Raises ApiError, EngineError or ClientDisconnected before the status line is sent.
        """
        usage, admission = self._services.key_usage, self._model.admission
        with await usage.request(self._record.owner), admission.ticket(client_of(scope)) as ticket:
            self._model.engine.announce()
            writer = ResponseWriter(send, self._record, self._services.settings.limits.stalled_seconds, ticket)
            accepts_trailers = TRAILERS in scope.get("extensions", {})
            try:
                with ticket.evictable():
                    synthesis = self._synthesize(writer, ticket, accepts_trailers)
                    response = await cancel_on_disconnect(receive, synthesis)
            except (ApiError, ClientDisconnected, EngineError) as error:
                if not writer.started:
                    raise
                ticket.release()  # the client may take seconds to read the last event
                self._record.failed(error)
                if isinstance(error, ApiError) and self._body.stream_format == "sse":
                    await writer.write_last(error_event(error))
                return
            except BrokenStream:
                return
        if response is not None:
            await response(scope, receive, send)

    async def _synthesize(
        self, writer: ResponseWriter, ticket: AdmissionTicket, accepts_trailers: bool
    ) -> Response | None:
        """Stream the speech to ``writer``. If the request does not stream, return a response with all of it instead."""
        body, record = self._body, self._record
        async with start_synthesis(body, self._model, self._services, record, ticket) as utterance:
            if not body.stream:
                return await _whole_response(utterance, body)
            if body.stream_format == "sse":
                headers = raw_headers({"Content-Type": CONTENT_TYPE, **audio_headers(utterance, body)})
                await writer.write(headers, with_pings(speech_events(utterance, record)))
            else:
                headers = raw_headers({"Content-Type": utterance.media_type, **audio_headers(utterance, body)})
                trailer = (FINISH_REASON, lambda: _finish_reason(utterance))
                await writer.write(headers, utterance.encoded_and_timed(), trailer if accepts_trailers else None)
            return None


async def _whole_response(utterance: Utterance, body: SpeechBody) -> Response:
    """Return a response with the complete audio file, Content-Length and X-Finish-Reason."""
    audio = b"".join([piece async for piece in utterance.encoded_and_timed()])
    headers = {**audio_headers(utterance, body), FINISH_REASON: _finish_reason(utterance)}
    return Response(audio, media_type=utterance.media_type, headers=headers)


def audio_headers(utterance: Utterance, body: SpeechBody) -> dict[str, str]:
    """Return the headers that every response with audio has."""
    return {
        "X-Sample-Rate": str(utterance.sample_rate),
        "X-Channels": "1",
        "Cache-Control": "no-store",
        "X-Accel-Buffering": "no",
        **ignored_header(body.ignored),
    }


def raw_headers(headers: dict[str, str]) -> Headers:
    """Return ``headers`` as ASGI has them."""
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


def _finish_reason(utterance: Utterance) -> str:
    """Return the finish reason of an utterance whose audio was read to the end."""
    assert utterance.completion is not None
    return utterance.completion.finish_reason.value
