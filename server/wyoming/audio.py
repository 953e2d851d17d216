"""Sends the audio of an utterance as Wyoming events."""

from __future__ import annotations

from typing import Any

from wyoming.audio import AudioChunk, AudioStart, AudioStop

from engine.protocol.request import SAMPLE_RATE
from server.synthesis.utterance import Utterance
from server.wyoming.events import EventWriter

_FORMAT = {"rate": SAMPLE_RATE, "width": 2, "channels": 1}


class AudioSender:
    """The recipient of complete text (``Recipient`` of ``delivery``) and of live text (``Receiver`` of ``live``)."""

    def __init__(self, writer: EventWriter) -> None:
        self._writer = writer

    async def start(self, utterance: Utterance) -> None:
        """Send ``audio-start``."""
        await self._writer.write(AudioStart(**_FORMAT).event())

    async def send(self, audio: bytes) -> None:
        """Send ``audio-chunk``."""
        await self._writer.write(AudioChunk(audio=audio, **_FORMAT).event())

    async def finish(self, utterance: Utterance) -> None:
        """Send ``audio-stop``."""
        await self._writer.write(AudioStop().event())

    async def send_audio(self, audio: bytes) -> None:
        """Send ``audio-chunk``."""
        await self.send(audio)

    async def send_event(self, fields: dict[str, Any]) -> None:
        """Send ``audio-start`` or ``audio-stop`` for the event of a live session."""
        if fields["type"] == "audio.start":
            await self._writer.write(AudioStart(**_FORMAT).event())
        elif fields["type"] == "audio.done":
            await self._writer.write(AudioStop().event())
