"""Speech for live text: one stream over the engine utterances that the text becomes while it arrives."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.protocol.engine import EngineStream
from engine.protocol.request import CODEBOOKS, AudioChunk, Completion, FinishReason, SpeechRequest
from engine.protocol.speech_profile import TextLayout
from server.audio.onset import Samples
from server.live.live_pieces import LivePiece, LivePieces
from server.long_text.joints import Joiner
from server.long_text.pace import Pace
from server.long_text.pieces import SENTENCE_PAUSE
from server.long_text.segments import seed_of
from server.long_text.speech import total
from server.long_text.spoken_piece import SpokenPiece
from server.text.frontend import Spoken

_NO_CODES = np.zeros((0, CODEBOOKS), np.int16)


@dataclass(slots=True)
class _Utterance:
    """A piece that was submitted.

    text: what was sent to the engine. live: whether the engine waits for more. frames: number received so far.
    """

    piece: LivePiece
    stream: EngineStream
    text: str
    live: bool
    frames: int = 0

    def send(self) -> None:
        """Send the text that was added to the piece since the last call. Raises EngineUnavailable."""
        text = self.piece.take()
        if self.live and (text or self.piece.ended):
            self.live = not self.piece.ended
            self.text += text
            self.stream.append(text, last=self.piece.ended)


class LiveSpeech:
    """An AudioStream over the pieces of a live text. Text can be added before and after ``start``.

    A piece is submitted when it is ``ready`` and the audio of the piece before is almost complete. So most of the time
    it uses one engine utterance, and never more than two.
    """

    def __init__(self, longest: float, *, sentences: bool = False) -> None:
        """longest: maximum weight of a piece (``longest_piece``); infinite for a voice that must not be split.

        sentences: speak whole sentences, with the default text layout of the voice.
        """
        self._text = LivePieces(longest, sentences=sentences)
        self._waiting: deque[LivePiece] = deque()
        """Pieces that were not submitted yet."""
        self._current: _Utterance | None = None
        self._next: _Utterance | None = None
        self._changed = asyncio.Event()
        self._complete = False
        self._numbers = 0
        self._completions: list[Completion] = []
        self._pace = Pace()
        self._joiner = Joiner()
        self._samples = 0
        """Number of samples passed on."""
        self.spoken: deque[SpokenPiece] = deque()
        """The pieces that have begun, for the consumer to take."""

    @property
    def ready(self) -> bool:
        """Whether there is enough text to ``start``."""
        return bool(self._waiting) and self._waiting[0].ready

    @property
    def completion(self) -> Completion:
        """The finish reason and the token counts of all pieces together. Raises RuntimeError until all have ended."""
        if self._current is not None or not self._completions:
            raise RuntimeError("the utterance has not ended")
        return total(self._completions)

    def add(self, spoken: Spoken) -> None:
        """Append text. Raises EngineUnavailable."""
        self._waiting.extend(self._text.add(spoken))
        self._forward()

    def finish(self) -> None:
        """Mark the text as complete. Raises EngineUnavailable."""
        self._text.end()
        self._complete = True
        self._forward()

    def start(self, submit: Callable[[SpeechRequest], EngineStream], request: SpeechRequest) -> None:
        """Submit the first piece, which must be ready, with the voice and the sampling of ``request``."""
        self._submit, self._request = submit, request
        self._current = self._submit_piece()

    async def __aiter__(self) -> AsyncIterator[AudioChunk]:
        while self._current is not None:
            current = self._current
            for silence in self._joiner.pause(current.piece.pause) if current.piece.pause else ():
                yield self._chunk(silence)
            spoken = SpokenPiece(self._samples, self._request.language)
            self.spoken.append(spoken)
            async for chunk in current.stream:
                current.frames += len(chunk.codes)
                self._submit_ahead(current)
                spoken.text = current.text if current.piece.ended else None
                samples = self._joiner.join(chunk.samples, self._pause_after)
                if len(samples):
                    yield self._chunk(samples, chunk.codes)
            spoken.text, spoken.end = current.text, self._samples
            spoken.complete = current.stream.completion.finish_reason is FinishReason.STOP
            self._completions.append(current.stream.completion)
            cancelled = self._completions[-1].finish_reason is FinishReason.CANCELLED
            if cancelled or not current.piece.ended:  # or it was cut at its length limit, before its text was complete
                self._current = None
                break
            self._pace.add(current.frames, current.piece.weight)
            self._current = await self._following()
        last = self._text.pause if self._complete else 0.0
        for silence in self._joiner.pause(last, last=True) if last else (self._joiner.rest(),):
            if len(silence):
                yield self._chunk(silence)

    def cancel(self) -> None:
        """Abort. The engine stops working on it within one step. No-op once it has ended."""
        for utterance in (self._current, self._next):
            if utterance is not None:
                utterance.stream.cancel()

    @property
    def _pause_after(self) -> float | None:
        """Seconds of the pause after the current piece as far as it is known; None after the last one."""
        if self._next is not None:
            return self._next.piece.pause
        if self._waiting:
            return self._waiting[0].pause
        return self._text.pause or (None if self._complete else SENTENCE_PAUSE)

    def _forward(self) -> None:
        """Send new text of the pieces that the engine speaks, and wake up the reader."""
        for utterance in (self._current, self._next):
            if utterance is not None:
                utterance.send()
        self._changed.set()

    def _submit_ahead(self, current: _Utterance) -> None:
        """Submit the next piece if the current one is almost complete."""
        ended = current.piece.ended and self._pace.almost_complete(current.frames, current.piece.weight)
        if ended and self._next is None and self.ready:
            self._next = self._submit_piece()

    async def _following(self) -> _Utterance | None:
        """Return the piece after the current one, which has ended; wait for its text. None if there is none."""
        if self._next is not None:
            following, self._next = self._next, None
            return following
        while not self.ready:
            if self._complete:
                return None
            self._changed.clear()
            await self._changed.wait()
        return self._submit_piece()

    def _submit_piece(self) -> _Utterance:
        piece = self._waiting.popleft()
        sampling = replace(self._request.sampling, seed=seed_of(self._request.sampling.seed, self._numbers))
        self._numbers += 1
        live = not piece.ended
        layout: TextLayout | None = None if piece.whole else "streaming"
        request = replace(self._request, text=piece.take(), text_layout=layout, sampling=sampling, live=live)
        return _Utterance(piece, self._submit(request), request.text, live)

    def _chunk(self, samples: Samples, codes: NDArray[np.int16] = _NO_CODES) -> AudioChunk:
        self._samples += len(samples)
        return AudioChunk(samples, codes)
