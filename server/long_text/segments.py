"""Plans the utterances of the engine for a text of any length, or for the turns of several speakers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from engine.protocol.request import SpeechRequest
from server.long_text.pieces import Piece, has_words, in_one_paragraph, pieces
from server.long_text.sentences import weight
from server.request_models.speech import Split
from server.text.frontend import Pause

TURN_PAUSE = 0.5
"""Seconds of silence between two turns."""
MAX_PAUSE = 10.0
"""Maximum seconds of several requested pauses with no word between them."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one voice says. request: its text as it will be spoken. pauses: requested pauses in this text."""

    request: SpeechRequest
    pauses: tuple[Pause, ...] = ()


@dataclass(frozen=True, slots=True)
class Segment:
    """One utterance of the engine.

    pause: seconds of silence before it, from the last sound of the previous segment to its first sound. 0 for a first
    segment without a requested pause, whose start stays as it is.
    request: None at the end of a text that ends with a requested pause.
    """

    pause: float
    request: SpeechRequest | None


def is_one_segment(turns: Sequence[Turn], split: Split, longest: int) -> bool:
    """Return whether ``turns`` are spoken as one utterance, without joints. longest: as for ``segments``."""
    return len(turns) == 1 and _is_whole(turns[0], split, longest)


def segments(turns: Sequence[Turn], split: Split, longest: int) -> Iterator[Segment]:
    """Yield the segments of ``turns``, lazily. The first one has the seed of its request, others a derived one.

    longest: maximum weight of a piece (``longest_piece``).
    """
    numbers = count()
    requested = 0.0
    for position, turn in enumerate(turns):
        opening = True
        for piece in _pieces_of(turn, split, longest):
            pause = piece.pause
            if opening:
                pause = min(MAX_PAUSE, requested + pause) or (TURN_PAUSE if position else 0.0)
                opening, requested = False, 0.0
            if piece.text:
                yield Segment(pause, _with_text(turn.request, piece.text, next(numbers)))
            else:
                requested = pause
    if requested:
        yield Segment(requested, None)


def _with_text(request: SpeechRequest, text: str, number: int) -> SpeechRequest:
    sampling = replace(request.sampling, seed=seed_of(request.sampling.seed, number))
    return replace(request, text=text, sampling=sampling)


def seed_of(seed: int | None, number: int) -> int | None:
    """Return the seed of segment ``number``: the request's own seed for the first, a derived one for the others."""
    if seed is None or number == 0:
        return seed
    digest = hashlib.blake2b(f"{seed}:{number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def _pieces_of(turn: Turn, split: Split, longest: int) -> Iterator[Piece]:
    """Yield the pieces of a turn. A piece without text is a requested pause at its end."""
    request = turn.request
    if _is_whole(turn, split, longest) or not has_words(request.text):
        yield Piece(in_one_paragraph(request.text))
        return
    pause, start = 0.0, 0
    for end, seconds in [*turn.pauses, (len(request.text), 0.0)]:
        run, start = request.text[start:end], end
        if has_words(run):
            for piece in pieces(run, request.language, longest, fill=split == "auto"):
                yield Piece(piece.text, piece.pause or pause)
                pause = 0.0
        pause = min(MAX_PAUSE, pause + seconds)
    if pause:
        yield Piece("", pause)


def _is_whole(turn: Turn, split: Split, longest: int) -> bool:
    """Return whether a turn is spoken as one utterance. Designed voices always are: each utterance has another one."""
    request = turn.request
    designed = request.speaker is None and request.voice is None
    if split == "none" or designed:
        return True
    fits = len(request.text) <= longest and weight(request.text) <= longest
    return split == "auto" and fits and not turn.pauses and "\n\n" not in request.text
