"""The engine's stream of a live utterance, which accounts how long the engine waits for text."""

from __future__ import annotations

from collections.abc import AsyncIterator

from engine.request import SAMPLE_RATE, AudioChunk, Completion
from server.admission import Seat
from server.utterance import Speech


class LiveStream:
    """Passes on the chunks of ``speech``, and counts waits for them as the client's while its text is incomplete.

    The server does not know when the talker has read all text. But each token of text makes a frame of audio, so an
    engine that keeps up with playback delivers a chunk within the time that the chunk takes to play. Only what a wait
    takes longer than that is counted, which makes the account lenient: text at half the pace of speech passes, and so
    does an engine at half the speed of playback.
    """

    def __init__(self, speech: Speech, seat: Seat, *, complete: bool) -> None:
        """complete: whether all text has been sent already."""
        self._speech, self._seat, self._complete = speech, seat, complete
        self._waiting = False

    @property
    def completion(self) -> Completion:
        """How the utterance ended; known once all chunks are taken."""
        return self._speech.completion

    def finish(self) -> None:
        """All text has been sent: further waits are the engine's."""
        self._complete = True
        self._text_came()

    async def __aiter__(self) -> AsyncIterator[AudioChunk]:
        chunks = aiter(self._speech)
        while True:
            if not self._complete:
                self._waiting = True
                self._seat.client_blocks()
            chunk = await anext(chunks, None)
            self._text_came(0.0 if chunk is None else len(chunk.samples) / SAMPLE_RATE)
            if chunk is None:
                return
            yield chunk

    def cancel(self) -> None:
        """Give the utterance up. Void once it has ended."""
        self._speech.cancel()

    def _text_came(self, chunk_seconds: float = 0.0) -> None:
        if self._waiting:
            self._waiting = False
            self._seat.client_resumes(excused=chunk_seconds)
