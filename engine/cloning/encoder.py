"""Encodes reference recordings as voices: an x-vector, and codes for in-context cloning (SPEC 7 and 8).

A built-in speaker is a voice too: its row of the talker's codec embedding replaces the x-vector.
"""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from engine.checkpoint.folder import Checkpoint
from engine.cloning.networks import MIN_SAMPLES, ReferenceNetworks, captured_sizes
from engine.errors import EngineError, EngineFailed, RequestError
from engine.protocol.messages import EncodeRequest
from engine.protocol.request import SAMPLE_RATE, Voice

_CACHE_SIZE = 128
"""Capacity of the voice cache."""
_log = logging.getLogger(__name__)


class ReferenceEncoder:
    """Encodes recordings, with an LRU cache of voices. Not thread-safe.

    The cache key is a hash of the recording (``cache_key``). hits, misses: cache hits and misses.
    """

    def __init__(self, checkpoint: Checkpoint, device: torch.device) -> None:
        self._networks = ReferenceNetworks(checkpoint, device)
        self._speakers = _speaker_voices(checkpoint)
        self._min_norm = checkpoint.profile.embedding_norm
        self._voices: OrderedDict[bytes, Voice] = OrderedDict()
        self.hits = self.misses = 0

    def capture(self) -> None:
        """Capture CUDA graphs of batches, and encode with them from now on.

        Needs a GPU that nothing else uses during the capture. See ``ReferenceNetworks.capture``.
        """
        self._networks.capture(captured_sizes())

    def batch_size(self, requests: Sequence[EncodeRequest]) -> int:
        """Return how many of the leading requests to pass to one ``encode_all`` call; at least 1."""
        return self._networks.batch_size([len(request.samples) for request in requests])

    def cached(self, key: bytes) -> Voice | None:
        """Return the cached voice of the recording with this ``cache_key``, or None. Counts a hit, but no miss."""
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
        keys = [cache_key(request) for request in requests]
        results: dict[bytes, Voice | EngineError] = {key: self._voices[key] for key in keys if key in self._voices}
        missing: dict[bytes, EncodeRequest] = {}
        for key, request in zip(keys, requests, strict=True):
            if key in results:
                continue
            if (error := self._check(request)) is None:
                missing[key] = request
            else:
                results[key] = error
        if missing:
            results.update(zip(missing, self._encode_batch(list(missing.values())), strict=True))
        self._count_hits(keys, results)
        self._store(results)
        return [results[key] for key in keys]

    def speaker(self, name: str) -> Voice:
        """Return the voice of a built-in speaker, spelled as in the checkpoint. Raises RequestError if unknown."""
        voice = self._speakers.get(name)
        if voice is None:
            names = ", ".join(self._speakers) or "none"
            raise RequestError(f"voice must be one of {names}, got {name!r}", code="voice_not_found", param="voice")
        return voice

    def _check(self, request: EncodeRequest) -> RequestError | None:
        if not self._networks.can_clone:
            return RequestError(
                "this checkpoint cannot clone a voice: it has no speaker encoder",
                code="unsupported_task",
                param="ref_audio",
            )
        if len(request.samples) < MIN_SAMPLES:
            return RequestError(
                f"a reference recording must have at least {1000 * MIN_SAMPLES // SAMPLE_RATE} ms, got "
                f"{1000 * len(request.samples) / SAMPLE_RATE:.0f} ms",
                code="reference_too_short",
                param="ref_audio",
            )
        if request.codes and not self._networks.can_clone_in_context:
            return RequestError(
                "this checkpoint does not support in-context cloning: its codec has no encoder; omit ref_text",
                code="unsupported_task",
                param="ref_text",
            )
        return None

    def _encode_batch(self, requests: Sequence[EncodeRequest]) -> list[Voice | EngineError]:
        """Encode recordings as one batch. If the batch fails, retry each alone: one recording may be the cause."""
        try:
            voices = self._networks.encode([each.samples for each in requests], [each.codes for each in requests])
            return [self._scaled(voice) for voice in voices]
        except Exception as error:
            _log.exception("encoding %d reference recordings failed", len(requests))
            failure = EngineFailed(f"encoding the reference failed: {error}")
        # After the except block, the exception no longer keeps the tensors of its frames alive.
        self._networks.empty_cache()
        if len(requests) == 1:
            return [failure]
        return [voice for request in requests for voice in self._encode_batch([request])]

    def _scaled(self, voice: Voice) -> Voice:
        """Return ``voice`` with an x-vector whose norm is at least the checkpoint's ``embedding_norm``."""
        norm = float(np.linalg.norm(voice.embedding))
        if not 0 < norm < self._min_norm:
            return voice
        return replace(voice, embedding=voice.embedding * np.float32(self._min_norm / norm))

    def _count_hits(self, keys: Sequence[bytes], results: Mapping[bytes, Voice | EngineError]) -> None:
        """Update hits and misses. A recording that occurs twice is a hit the second time, if its encoding succeeded."""
        known = set(self._voices)
        for key in keys:
            self.hits += key in known
            self.misses += key not in known
            if isinstance(results[key], Voice):
                known.add(key)

    def _store(self, results: Mapping[bytes, Voice | EngineError]) -> None:
        """Cache the voices as the most recently used ones, and evict the least recently used beyond ``_CACHE_SIZE``."""
        for key, voice in results.items():
            if isinstance(voice, Voice):
                self._voices[key] = voice
                self._voices.move_to_end(key)
        while len(self._voices) > _CACHE_SIZE:
            self._voices.popitem(last=False)


def _speaker_voices(checkpoint: Checkpoint) -> dict[str, Voice]:
    """Return the built-in speakers as voices. The rows are copied, so that no request reads the checkpoint."""
    speakers = checkpoint.model.talker.speakers
    table = checkpoint.codec_embedding() if speakers else torch.empty(0)
    return {name: Voice(table[row].float().clone().numpy()) for name, row in speakers.items()}


def cache_key(request: EncodeRequest) -> bytes:
    """Return the SHA-256 of all inputs that determine the voice: the samples and ``codes``."""
    digest = hashlib.sha256(bytes([request.codes]))
    digest.update(np.ascontiguousarray(request.samples).data)
    return digest.digest()
