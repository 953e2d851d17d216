"""Reference recordings to voices: an x-vector, and codes for in-context cloning (SPEC 7 and 8)."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from math import ceil

import numpy as np
import soxr
import torch
from numpy.typing import NDArray

from engine.checkpoint import Checkpoint
from engine.errors import RequestError
from engine.messages import EncodeRequest
from engine.models.speaker_encoder import SpeakerEncoder
from engine.models.speech_encoder import SpeechEncoder
from engine.request import SAMPLE_RATE, Voice

_KEPT = 128


class ReferenceEncoder:
    """Encodes a recording once: the voices made last are kept by what they were made from. Not thread-safe."""

    def __init__(self, checkpoint: Checkpoint, device: torch.device) -> None:
        model, codec = checkpoint.model.speaker_encoder, checkpoint.codec.encoder
        self._speaker = self._speech = None
        if model is not None:
            self._speaker = SpeakerEncoder(checkpoint.tensors("speaker_encoder."), model, device=device)
        if model is not None and codec is not None:
            self._speech = SpeechEncoder(checkpoint.codec_tensors("encoder."), codec, device=device)
        self._voices: OrderedDict[bytes, Voice] = OrderedDict()

    @torch.inference_mode()
    def encode(self, request: EncodeRequest) -> Voice:
        """The voice of a recording, without its transcript. Raises RequestError where the checkpoint cannot."""
        key = hashlib.sha256(request.to_bytes()).digest()
        voice = self._voices.pop(key, None) or self._encode(request)
        self._voices[key] = voice
        if len(self._voices) > _KEPT:
            self._voices.popitem(last=False)
        return voice

    def _encode(self, request: EncodeRequest) -> Voice:
        if self._speaker is None:
            raise RequestError(
                "this checkpoint cannot clone a voice: it has no speaker encoder",
                code="unsupported_task",
                param="ref_audio",
            )
        heard = resample(request.samples, request.rate, self._speaker.architecture.sample_rate)
        embedding = self._speaker(torch.from_numpy(heard)).cpu().numpy()
        if not request.codes:
            return Voice(embedding)
        if self._speech is None:
            raise RequestError(
                "this checkpoint cannot clone in context: its codec has no encoder; leave ref_text out",
                code="unsupported_task",
                param="ref_text",
            )
        samples = resample(request.samples, request.rate, SAMPLE_RATE)
        return Voice(embedding, self._speech(torch.from_numpy(samples)).cpu().numpy())


def resample(samples: NDArray[np.float32], rate: int, target: int) -> NDArray[np.float32]:
    """Mono samples at another rate, ceil(n * target / rate) of them, as the reference has them made."""
    if rate == target:
        return np.array(samples, np.float32)
    length = ceil(len(samples) * target / rate)
    heard = soxr.resample(samples, rate, target, quality="HQ")[:length]
    return np.pad(heard, (0, length - len(heard))).astype(np.float32)
