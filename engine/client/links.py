"""The links to an engine process, whose records are received in the event loop. Imports no torch."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from engine.client.deferred import DeferredRecords
from engine.transfer import Kind, LoopWakeup, Record, Side

AUDIO_WINDOW = 128
"""Credit of an audio stream, in frames: how far a client may be behind Code2Wav (10 s of audio)."""
RING_BYTES = 8 << 20
"""Capacity of each ring."""
_REQUEST_BACKLOG = 64 << 20
"""Maximum bytes of requests queued in this process while the request ring is full, so that submitting never blocks."""
_log = logging.getLogger(__name__)


class EngineLinks:
    """The request link and the audio link to one run of an engine process.

    The engine process exits when stage 2 exits, so the end of the request link means that the whole engine has ended.

    on_records: called with new records of the request link and of the audio link. on_end: called once after the last
    record, unless ``stop`` or ``close`` was called before. either: whether the end of the audio link alone is the end,
    too. Otherwise the reason for it may still arrive on the request link.
    """

    def __init__(
        self,
        requests: Side,
        audio: Side,
        on_records: Callable[[list[Record], list[Record]], None],
        on_end: Callable[[], None],
        *,
        either: bool = False,
    ) -> None:
        """Take ownership of both sides. Raises OSError or RuntimeError."""
        self._on_records, self._on_end, self._either = on_records, on_end, either
        self._wakeup = LoopWakeup(asyncio.get_running_loop(), self._receive, self._has_records)
        with contextlib.ExitStack() as undo:
            try:
                self.requests = requests.attach(self._wakeup, backlog=_REQUEST_BACKLOG)
            except (OSError, RuntimeError):
                audio.close()
                raise
            undo.callback(self.requests.close)
            undo.callback(self._wakeup.stop)
            self.audio = audio.attach(self._wakeup)
            undo.pop_all()
        self.deferred = DeferredRecords(self.requests, self.audio)

    def stop(self) -> None:
        """Receive nothing more. Idempotent."""
        self._wakeup.stop()

    def close(self) -> None:
        """Close both links, after ``stop``."""
        self.requests.close()
        self.audio.close()

    def _receive(self) -> None:
        try:
            responses, audio = self.requests.receive(), self._receive_audio()
            if responses or audio:
                self._on_records(responses, audio)
            if not self._ended:
                return
        except Exception:
            _log.exception("receiving records from the engine process failed")
        self.stop()
        self._on_end()

    def _receive_audio(self) -> list[Record]:
        """Return new audio records, without OPEN records, which announce nothing.

        A FAIL record without an error says only that the link is dead. It is left out: ``on_end`` follows, and before
        that the client would submit a moved request to the same process again.
        """
        records = self.audio.receive()
        return [each for each in records if each.kind is not Kind.OPEN and (each.kind is not Kind.FAIL or each.payload)]

    def _has_records(self) -> bool:
        return self._ended or self.requests.pending() or self.audio.pending()

    @property
    def _ended(self) -> bool:
        return not self.requests.alive or (self._either and not self.audio.alive)
