"""The text of a live utterance: deltas as the client sends them in, what will be spoken out."""

from __future__ import annotations

from engine.protocol.request import EngineInfo
from server.errors import ApiError
from server.request_models.speech import SpeechBody, has_visible_text
from server.synthesis.spoken_input import check_script, has_sound, live_frontend, nothing_to_speak
from server.telemetry.record import MAX_SPOKEN, RequestRecord
from server.text.frontend import Spoken
from server.text_settings import TextSettings

_PARAM = "text"


class LiveInput:
    """Reads the text of one utterance with the text front end, and records what became of it."""

    def __init__(
        self, body: SpeechBody, info: EngineInfo, settings: TextSettings, max_chars: int, record: RequestRecord
    ) -> None:
        """max_chars: maximum characters of the text as it is sent."""
        self._frontend = live_frontend(body, info, settings)
        self._info, self._max_chars, self._record = info, max_chars, record
        self._characters = 0
        self._is_visible = self._has_sound = False
        self._sent, self._spoken = "", ""
        """The beginnings of both texts."""

    @property
    def is_read(self) -> bool:
        """Whether the text front end reads the text, and so decides where sentences end."""
        return self._frontend is not None

    def add(self, delta: str) -> Spoken:
        """Return what can be spoken after ``delta``, perhaps nothing.

        Raises ApiError when the text is too long or in a script that the checkpoint cannot read.
        """
        self._characters += len(delta)
        self._record.characters = self._characters
        if self._characters > self._max_chars:
            message = f"the text of an utterance must have at most {self._max_chars} characters, got {self._characters}"
            raise ApiError(message, param=_PARAM, code="string_above_max_length")
        self._is_visible = self._is_visible or has_visible_text(delta)
        self._sent = (self._sent + delta)[:MAX_SPOKEN]
        return self._checked(Spoken(delta) if self._frontend is None else self._frontend.feed(delta))

    def finish(self) -> Spoken:
        """Return what is left to speak. Raises ApiError also when nothing of the whole text can be spoken."""
        spoken = self._checked(Spoken("") if self._frontend is None else self._frontend.finish())
        if not self._is_visible:
            raise ApiError("text must have a visible character before input.done", param=_PARAM)
        if not self._has_sound:
            raise nothing_to_speak(_PARAM)
        if self._spoken.split() != self._sent.split():
            self._record.spoken = self._spoken
        return spoken

    def _checked(self, spoken: Spoken) -> Spoken:
        check_script(spoken.text, self._info, _PARAM)
        self._has_sound = self._has_sound or has_sound(spoken.text)
        self._spoken = (self._spoken + spoken.text)[:MAX_SPOKEN]
        return spoken
