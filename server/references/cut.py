"""Cuts a recording and its transcript at the end of the same sentence, without recognizing the speech."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

from engine.protocol.request import SAMPLE_RATE
from server.long_text.sentences import weight
from server.references.speech_spans import Span

_SENTENCE_END = re.compile(r"""[.!?…]+["'”’»)\]]*\s+|[。！？｡]+[」』”’）]*\s*""")
_SHORTEST_PAUSE = SAMPLE_RATE * 2 // 10
_TOLERANCE = 0.12
"""How far a pause may be from where the letters place the end of a sentence, as a fraction of the speech before it."""
_LEAST_TOLERANCE = SAMPLE_RATE * 35 // 100


class Cut(NamedTuple):
    """The kept beginning of a recording.

    spans: its speech. transcript: what is said in them. end: the sample before which the next word begins.
    """

    spans: list[Span]
    transcript: str
    end: int


def cut(spans: Sequence[Span], transcript: str, longest: int) -> Cut | None:
    """Return the longest beginning of at most ``longest`` samples that ends with a sentence, or None.

    The letters of the transcript predict how much of the speech each sentence takes. A sentence's end is taken for
    found only if a single long pause is near that place, no other end of a sentence is nearer to that pause, and the
    ends before it have pauses, too.

    Args:
        spans: the speech in the recording, between pauses.
        transcript: what is said in all of it.
        longest: from the first to the last sample of speech.
    """
    spoken = sum(span.samples for span in spans)
    letters = weight(transcript)
    ends = [match.end() for match in _SENTENCE_END.finditer(transcript) if match.end() < len(transcript)]
    expected = {end: spoken * weight(transcript[:end]) / letters for end in ends}
    pauses = _pauses(spans)
    paused = list(itertools.takewhile(lambda end: _near(expected[end], pauses), ends))
    for end in reversed(paused):
        pause = _pause_at(expected[end], pauses)
        if pause is None or spans[pause.after].stop - spans[0].start > longest:
            continue
        if min(ends, key=lambda other: abs(expected[other] - pause.spoken)) == end:
            return Cut(list(spans[: pause.after + 1]), transcript[:end].rstrip(), spans[pause.after + 1].start)
    return None


class _Pause(NamedTuple):
    """A pause after the span ``after``. spoken: samples of speech before it; samples: its duration."""

    after: int
    spoken: int
    samples: int


def _pauses(spans: Sequence[Span]) -> list[_Pause]:
    pauses, spoken = [], 0
    for index, (span, following) in enumerate(itertools.pairwise(spans)):
        spoken += span.samples
        if following.start - span.stop >= _SHORTEST_PAUSE:
            pauses.append(_Pause(index, spoken, following.start - span.stop))
    return pauses


def _near(expected: float, pauses: Sequence[_Pause]) -> list[_Pause]:
    tolerance = max(_LEAST_TOLERANCE, _TOLERANCE * expected)
    return [pause for pause in pauses if abs(pause.spoken - expected) <= tolerance]


def _pause_at(expected: float, pauses: Sequence[_Pause]) -> _Pause | None:
    """Return the only pause near ``expected`` samples of speech, or one much longer than the others there, or None."""
    near = sorted(_near(expected, pauses), key=lambda each: each.samples)
    if not near or (len(near) > 1 and near[-1].samples < 1.5 * near[-2].samples):
        return None
    return near[-1]
