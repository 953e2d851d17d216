"""Selects the engine of a request: consistent hashing on the voice with bounded load, least loaded otherwise."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Protocol, TypeVar

from engine.protocol.request import SpeechRequest

_BOUND = 1.25
"""An engine that a voice prefers may have at most this multiple of the mean number of requests.

"Consistent Hashing with Bounded Loads", Mirrokni, Thorup and Zadimoghaddam, 2016, arXiv:1608.01350.
"""


class Candidate(Protocol):
    """What routing knows about an engine."""

    @property
    def name(self) -> str:
        """Its name, which must not change while it is used."""

    @property
    def load(self) -> int:
        """Number of its open requests."""

    @property
    def slots(self) -> int:
        """Number of requests that it processes at once."""


C = TypeVar("C", bound=Candidate)


def voice_key(request: SpeechRequest) -> bytes | None:
    """Return what identifies the voice of ``request``. None without a voice, as in voice design.

    An engine that has served a voice has its prompt, and the decoder state after its recording, in its caches.
    """
    if request.speaker is not None:
        return request.speaker.lower().encode()
    return None if request.voice is None else request.voice.embedding.tobytes()


def in_order_of_preference(candidates: Sequence[C], request: SpeechRequest | None = None) -> list[C]:
    """Return ``candidates``, the one that should serve ``request`` first. Without a request, the least loaded first.

    The order for a voice is that of its hashes with the names (rendezvous hashing), so that losing an engine moves only
    the voices of that engine. Engines that are full, or have much more requests than the mean, come last.
    """
    if len(candidates) < 2:
        return list(candidates)
    by_load = sorted(candidates, key=lambda each: each.load / each.slots)
    key = None if request is None else voice_key(request)
    if key is None:
        return by_load
    bound = math.ceil(_BOUND * (sum(each.load for each in candidates) + 1) / len(candidates))
    digest = hashlib.blake2b(key, digest_size=16).digest()
    hashed = sorted(candidates, key=lambda each: hashlib.blake2b(digest + each.name.encode()).digest())
    within = [each for each in hashed if each.load < min(bound, each.slots)]
    return within + [each for each in by_load if each not in within]
