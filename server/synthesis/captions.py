"""Speech with the times of its words as JSON, in the format of Kokoro-FastAPI's ``/dev/captioned_speech``."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator
from typing import Any

from starlette.responses import Response

from server.synthesis.admission_ticket import AdmissionTicket
from server.synthesis.speech_response import SpeechResponse, audio_headers, raw_headers
from server.synthesis.streaming import ResponseWriter
from server.synthesis.synthesize import start_synthesis
from server.synthesis.utterance import Utterance, WordFields

_MEDIA_TYPE = "application/json"


class CaptionedResponse(SpeechResponse):
    """Synthesizes speech and sends it as JSON objects with ``audio``, ``audio_format`` and ``timestamps``.

    A streamed response has one object in each line, a whole response is one object. An error after the first object
    breaks the connection.
    """

    async def _synthesize(
        self, writer: ResponseWriter, ticket: AdmissionTicket, accepts_trailers: bool
    ) -> Response | None:
        body = self._body
        async with start_synthesis(body, self._model, self._services, self._record, ticket) as utterance:
            headers = audio_headers(utterance, body)
            if body.stream:
                await writer.write(raw_headers({"Content-Type": _MEDIA_TYPE, **headers}), _lines(utterance))
                return None
            audio = b"".join([piece async for piece in utterance.encoded_and_timed()])
            content = _object(utterance, audio, self._record.word_fields().get("words"))
            return Response(content, media_type=_MEDIA_TYPE, headers=headers)


async def _lines(utterance: Utterance) -> AsyncGenerator[bytes, None]:
    """Yield an object for each piece of audio, with the words that are known by then; the last ones without audio."""
    async for piece in utterance.encoded():
        words = [word for group in utterance.timed_words() for word in group or ()]
        yield _object(utterance, piece, words) + b"\n"
    rest = [word async for group in utterance.remaining_words() for word in group or ()]
    if rest:
        yield _object(utterance, b"", rest) + b"\n"


def _object(utterance: Utterance, audio: bytes, words: WordFields) -> bytes:
    fields: dict[str, Any] = {
        "audio": base64.b64encode(audio).decode(),
        "audio_format": utterance.media_type,
        "timestamps": [
            {"word": word["word"], "start_time": word["start"], "end_time": word["end"]} for word in words or ()
        ],
    }
    return json.dumps(fields).encode()
