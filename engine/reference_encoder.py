"""Reference recordings to voices: an x-vector, and codes for in-context cloning (SPEC 7 and 8).

A built-in speaker is a voice too: its row of the talker's codec embedding stands where a clone's x-vector does.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict

import numpy as np
import torch

from engine.checkpoint import Checkpoint
from engine.errors import RequestError
from engine.messages import EncodeRequest
from engine.models.speaker_encoder import SpeakerEncoder
from engine.models.speech_encoder import SpeechEncoder
from engine.request import SAMPLE_RATE, Voice

_KEPT = 128
_LONGEST = 30 * SAMPLE_RATE
_SHORTEST = SAMPLE_RATE // 10
"""Fewer samples are less than the speaker encoder's widest kernels."""


class ReferenceEncoder:
    """Encodes a recording once: the voices made last are kept by what they were made from. Not thread-safe.

    hits, misses: how often a recording's voice was at hand, and how often it had to be made. On a GPU it works on a
    stream of its own, so that no step waits for it.
    """

    def __init__(self, checkpoint: Checkpoint, device: torch.device) -> None:
        model, codec = checkpoint.model.speaker_encoder, checkpoint.codec.encoder
        self._speaker = self._speech = None
        if model is not None:
            self._speaker = SpeakerEncoder(checkpoint.tensors("speaker_encoder."), model, device=device)
        if model is not None and codec is not None:
            self._speech = SpeechEncoder(checkpoint.codec_tensors("encoder."), codec, device=device)
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(device))
        self._checkpoint = checkpoint
        self._voices: OrderedDict[bytes, Voice] = OrderedDict()
        self.hits = self.misses = 0

    @torch.inference_mode()
    def warm_up(self) -> None:
        """Encode the longest recording that is usual, so that what it takes is taken before anybody asks."""
        if self._speaker is not None:
            self._encode(EncodeRequest(np.zeros(_LONGEST, np.float32), codes=self._speech is not None))

    @torch.inference_mode()
    def encode(self, request: EncodeRequest) -> Voice:
        """The voice of a recording, without its transcript. Raises RequestError where the checkpoint cannot."""
        key = hashlib.sha256(request.to_bytes()).digest()
        voice = self._voices.pop(key, None)
        self.hits += voice is not None
        self.misses += voice is None
        if voice is None:
            voice = self._encode(request)
        self._voices[key] = voice
        if len(self._voices) > _KEPT:
            self._voices.popitem(last=False)
        return voice

    def speaker(self, name: str) -> Voice:
        """The voice of a built-in speaker, by the checkpoint's own spelling. Raises RequestError for any other."""
        row = self._checkpoint.model.talker.speakers.get(name)
        if row is None:
            raise RequestError(f"there is no voice {name!r}", code="voice_not_found", param="voice")
        table = self._checkpoint.tensors("talker.model.codec_embedding.")["weight"]
        return Voice(table[row].float().numpy())

    def _encode(self, request: EncodeRequest) -> Voice:
        with torch.cuda.stream(self._stream):
            return self._encoded(request)

    def _encoded(self, request: EncodeRequest) -> Voice:
        if self._speaker is None:
            raise RequestError(
                "this checkpoint cannot clone a voice: it has no speaker encoder",
                code="unsupported_task",
                param="ref_audio",
            )
        if len(request.samples) < _SHORTEST:
            raise RequestError(
                f"a recording of {1000 * len(request.samples) / SAMPLE_RATE:.0f} ms is too short to be a voice",
                code="reference_too_short",
                param="ref_audio",
            )
        samples = torch.from_numpy(np.array(request.samples))
        embedding = self._speaker(samples).cpu().numpy()
        if not request.codes:
            return Voice(embedding)
        if self._speech is None:
            raise RequestError(
                "this checkpoint cannot clone in context: its codec has no encoder; leave ref_text out",
                code="unsupported_task",
                param="ref_text",
            )
        return Voice(embedding, self._speech(samples).cpu().numpy())
