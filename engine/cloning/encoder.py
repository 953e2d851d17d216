"""Encodes reference recordings as voices: an x-vector, and codes for in-context cloning (SPEC 7 and 8).

A built-in speaker is a voice too: its row of the talker's codec embedding replaces the x-vector.
"""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from engine.checkpoint.folder import Checkpoint
from engine.cloning.networks import SHORTEST, ReferenceNetworks, captured_sizes
from engine.errors import EngineError, EngineFailed, RequestError
from engine.protocol.messages import EncodeRequest
from engine.protocol.request import SAMPLE_RATE, Voice

_KEPT = 128
"""Capacity of the voice cache."""
_log = logging.getLogger(__name__)


class ReferenceEncoder:
    """Encodes recordings, with an LRU cache of voices. Not thread-safe.

    The cache key is a hash of the recording (``key_of``). hits, misses: cache hits and misses.
    """

    def __init__(self, checkpoint: Checkpoint, device: torch.device) -> None:
        self._networks = ReferenceNetworks(checkpoint, device)
        self._speakers = _speaker_voices(checkpoint)
        self._voices: OrderedDict[bytes, Voice] = OrderedDict()
        self.hits = self.misses = 0

    def capture(self) -> None:
        """Capture CUDA graphs of batches, and encode with them from now on.

        Needs a GPU that nothing else uses during the capture. See ``ReferenceNetworks.capture``.
        """
        self._networks.capture(captured_sizes())

    def together(self, requests: Sequence[EncodeRequest]) -> int:
        """Return how many of the leading requests to pass to one ``encode_all`` call; at least 1."""
        return self._networks.together([len(request.samples) for request in requests])

    def at_hand(self, key: bytes) -> Voice | None:
        """Return the cached voice of the recording with this ``key_of``, or None. Counts a hit, but no miss."""
        voice = self._voices.get(key)
        if voice is not None:
            self.hits += 1
            self._voices.move_to_end(key)
        return voice

    def encode(self, request: EncodeRequest) -> Voice:
        """Return the voice of a recording, without a transcript.

        Raises RequestError if the checkpoint cannot encode it or it is too short, EngineFailed if the encoding fails.
        """
        [voice] = self.encode_all([request])
        if isinstance(voice, EngineError):
            raise voice
        return voice

    def encode_all(self, requests: Sequence[EncodeRequest]) -> list[Voice | EngineError]:
        """Encode several recordings. Return a voice or an error for each; one failure does not fail the others."""
        keys = [key_of(request) for request in requests]
        found: dict[bytes, Voice | EngineError] = {key: self._voices[key] for key in keys if key in self._voices}
        missing: dict[bytes, EncodeRequest] = {}
        for key, request in zip(keys, requests, strict=True):
            if key in found:
                continue
            if (refusal := self._refusal(request)) is None:
                missing[key] = request
            else:
                found[key] = refusal
        if missing:
            found.update(zip(missing, self._made(list(missing.values())), strict=True))
        self._count(keys, found)
        self._keep(found)
        return [found[key] for key in keys]

    def speaker(self, name: str) -> Voice:
        """Return the voice of a built-in speaker, spelled as in the checkpoint. Raises RequestError if unknown."""
        voice = self._speakers.get(name)
        if voice is None:
            raise RequestError(f"there is no voice {name!r}", code="voice_not_found", param="voice")
        return voice

    def _refusal(self, request: EncodeRequest) -> RequestError | None:
        if not self._networks.can_clone:
            return RequestError(
                "this checkpoint cannot clone a voice: it has no speaker encoder",
                code="unsupported_task",
                param="ref_audio",
            )
        if len(request.samples) < SHORTEST:
            return RequestError(
                f"a recording of {1000 * len(request.samples) / SAMPLE_RATE:.0f} ms is too short to be a voice",
                code="reference_too_short",
                param="ref_audio",
            )
        if request.codes and not self._networks.can_clone_in_context:
            return RequestError(
                "this checkpoint cannot clone in context: its codec has no encoder; leave ref_text out",
                code="unsupported_task",
                param="ref_text",
            )
        return None

    def _made(self, requests: Sequence[EncodeRequest]) -> list[Voice | EngineError]:
        """Encode recordings as one batch. If the batch fails, retry each alone: one recording may be the cause."""
        try:
            return [*self._networks.encode([each.samples for each in requests], [each.codes for each in requests])]
        except Exception as error:
            _log.exception("references could not be encoded")
            failure = EngineFailed(f"the reference could not be encoded: {error}")
        # After the except block, the exception no longer keeps the tensors of its frames alive.
        self._networks.give_back()
        if len(requests) == 1:
            return [failure]
        return [voice for request in requests for voice in self._made([request])]

    def _count(self, keys: Sequence[bytes], found: Mapping[bytes, Voice | EngineError]) -> None:
        """Update hits and misses. A recording that occurs twice is a hit the second time, if its encoding succeeded."""
        known = set(self._voices)
        for key in keys:
            self.hits += key in known
            self.misses += key not in known
            if isinstance(found[key], Voice):
                known.add(key)

    def _keep(self, found: Mapping[bytes, Voice | EngineError]) -> None:
        """Cache the voices as the most recently used ones, and evict the least recently used beyond ``_KEPT``."""
        for key, voice in found.items():
            if isinstance(voice, Voice):
                self._voices[key] = voice
                self._voices.move_to_end(key)
        while len(self._voices) > _KEPT:
            self._voices.popitem(last=False)


def _speaker_voices(checkpoint: Checkpoint) -> dict[str, Voice]:
    """Return the built-in speakers as voices. The rows are copied, so that no request reads the checkpoint."""
    speakers = checkpoint.model.talker.speakers
    table = checkpoint.codec_embedding() if speakers else torch.empty(0)
    return {name: Voice(table[row].float().clone().numpy()) for name, row in speakers.items()}


def key_of(request: EncodeRequest) -> bytes:
    """Return the SHA-256 of all inputs that determine the voice: the samples and ``codes``."""
    digest = hashlib.sha256(bytes([request.codes]))
    digest.update(np.ascontiguousarray(request.samples).data)
    return digest.digest()
