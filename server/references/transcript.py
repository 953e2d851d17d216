"""Prepares the transcript of a reference recording, and compares its length with the recording's."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from engine.protocol.request import EngineInfo
from server.api_error import ApiError
from server.long_text.sentences import weight
from server.synthesis.spoken_input import check_script
from server.text.frontend import spoken
from server.text.language import text_language

_LETTERS_PER_SECOND = (7.2, 30.0)
"""Range of letters per second: from slow dictation, pauses not counted, to hurried speech. Usual are 12 to 20."""
_SPARE_LETTERS = 10
"""Letters that a transcript may have beyond the range, for words that the recording cuts off."""
_LETTERS_PER_DIGIT = 5
"""A digit stands for up to this many letters more ("7": "seven")."""
_STOPPED = re.compile(r"""[.!?…。！？｡؟।۔]["'”’»)\]」』）]*$""")
_OPEN_END = re.compile(r"[\s,;:،、，；：–—-]+$")
_IDEOGRAPHIC = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]\W*$")
_DEVANAGARI = re.compile(r"[\u0900-\u097f]\W*$")
_PARAM = "ref_text"


class Transcript(NamedTuple):
    """What is said in a recording. stop_added: whether its final stop was missing."""

    text: str
    stop_added: bool = False


def transcript_for(text: str, info: EngineInfo, steps: tuple[str, ...]) -> Transcript:
    """Return a transcript as it is spoken, or exactly as it was given if ``steps`` is empty.

    Raises ApiError if nothing of it is spoken, or in a script that the checkpoint cannot read.
    """
    if not steps:
        return Transcript(text)
    transcript = spoken_transcript(text, text_language("auto", text, info.readable_languages), steps)
    check_script(transcript.text, info, _PARAM)
    return transcript


@lru_cache(maxsize=256)
def spoken_transcript(text: str, language: str, steps: tuple[str, ...]) -> Transcript:
    """Return a transcript as its words are spoken, and as texts are written in training: with a final stop.

    Without the stop a voice runs from the transcript into the text, and loses words. Stored voices keep their
    transcript as it was given, so their requests need this, too: hence the cache.

    Args:
        text: the transcript as given.
        language: name of its language, in lower case.
        steps: steps of the text front end.

    Raises:
        ApiError: if nothing of the transcript is spoken.
    """
    complete = with_stop(spoken(text, language, steps).text.strip())
    if not complete:
        message = f"{_PARAM} must contain words, got only characters that are not spoken; correct it or omit it"
        raise ApiError(message, param=_PARAM, code="nothing_to_speak")
    return Transcript(complete, stop_added=not _STOPPED.search(text.rstrip()))


def with_stop(text: str) -> str:
    """Return ``text`` with its last sentence ended by a stop of its script, instead of a comma, colon or dash."""
    if _STOPPED.search(text):
        return text
    text = _OPEN_END.sub("", text)
    if not text:
        return text
    return text + ("。" if _IDEOGRAPHIC.search(text) else "।" if _DEVANAGARI.search(text) else ".")


def length_mismatch(transcript: str, spoken_seconds: float, seconds: float) -> ApiError | None:
    """Return the error ``transcript_mismatch`` unless a person could say ``transcript`` in this time.

    Args:
        transcript: the spoken transcript.
        spoken_seconds: duration of the speech, without pauses.
        seconds: duration from the first to the last speech.
    """
    letters = weight(transcript)
    digits = sum(map(str.isdecimal, transcript))
    fewest, most = _LETTERS_PER_SECOND[0] * spoken_seconds, _LETTERS_PER_SECOND[1] * seconds
    if letters + _LETTERS_PER_DIGIT * digits < fewest:
        comparison = f"must have at least {fewest:.0f} letters for {spoken_seconds:.1f} s of speech"
    elif letters > most + _SPARE_LETTERS:
        comparison = f"must have at most {most:.0f} letters for {seconds:.1f} s of speech"
    else:
        return None
    message = (
        f"{_PARAM} {comparison} in the recording, got {letters}: it must be the transcript of the whole recording; "
        f"correct it, or omit {_PARAM} to clone the voice alone"
    )
    return ApiError(message, param=_PARAM, code="transcript_mismatch")
