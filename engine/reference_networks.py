"""The two networks that hear a reference recording (SPEC 7 and 8): one recording at a time, or in captured batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from engine.checkpoint import Checkpoint
from engine.lane import CudaLane, HostLane, Lane
from engine.models.speaker_encoder import SpeakerEncoder
from engine.models.speech_encoder import SpeechEncoder
from engine.reference_graphs import BatchSizes, GraphedEncoder
from engine.request import CODEBOOKS, SAMPLE_RATE, SAMPLES_PER_FRAME, Voice

SHORTEST = SAMPLE_RATE // 10
"""Fewer samples are less than the speaker encoder's widest kernels."""
_log = logging.getLogger(__name__)


class ReferenceNetworks:
    """A checkpoint's, on ``device``. Not thread-safe.

    can_clone, can_clone_in_context: which of them it has. On a GPU they work in a lane of their own, so that no step
    waits for it; who waits for a recording sleeps.
    """

    def __init__(self, checkpoint: Checkpoint, device: torch.device) -> None:
        model, codec = checkpoint.model.speaker_encoder, checkpoint.codec.encoder
        self.can_clone = model is not None
        self.can_clone_in_context = model is not None and codec is not None
        self._lane = _lane_on(device)
        self._sizes = BatchSizes([])
        self._vectors: GraphedEncoder | None = None
        self._codes: GraphedEncoder | None = None
        with self._lane.inside():
            if model is not None:
                self._speaker = SpeakerEncoder(checkpoint.tensors("speaker_encoder."), model, device=device)
            if model is not None and codec is not None:
                self._speech = SpeechEncoder(checkpoint.codec_tensors("encoder."), codec, device=device)
            self._lane.mark().synchronize()

    def capture(self, sizes: BatchSizes) -> None:
        """Batches of ``sizes`` are one launch each from now on. Nothing else may use the GPU meanwhile.

        What their work takes of its memory is kept for them.
        """
        if not self.can_clone:
            return
        began = time.monotonic()
        if self.can_clone_in_context:
            self._codes = GraphedEncoder(
                self._speech.batch, self._lane, sizes, shape=_codes_shape, dtype=torch.int64, shortest=SHORTEST
            )
        width = self._speaker.architecture.width
        self._vectors = GraphedEncoder(
            self._speaker.batch, self._lane, sizes, shape=lambda _: (width,), dtype=torch.float32, shortest=SHORTEST
        )
        self._sizes = sizes
        self.give_back()
        taken = time.monotonic() - began
        _log.info("the reference encoders captured batches of %d sizes in %.1f s", len(sizes.all), taken)

    def together(self, lengths: Sequence[int]) -> int:
        """How many of the first recordings, of so many samples, are best given to ``encode`` together: one or more."""
        return max(1, self._sizes.together(lengths))

    @torch.inference_mode()
    def encode(self, recordings: Sequence[NDArray[np.float32]], codes: Sequence[bool]) -> list[Voice]:
        """The voices of recordings of ``SHORTEST`` samples or more; those with ``codes`` for in-context cloning."""
        if self._vectors is not None and self._sizes.smallest(len(recordings), max(map(len, recordings))):
            return self._encode_batch(self._vectors, recordings, codes)
        with self._lane.inside():
            voices = [self._encode_one(*each) for each in zip(recordings, codes, strict=True)]
        self.give_back()
        return voices

    def give_back(self) -> None:
        """The memory of a GPU that torch keeps when work is done; captured batches keep theirs.

        What one long recording took would stay torch's for good, and others need the GPU too.
        """
        if self._lane.device.type == "cuda":
            torch.cuda.empty_cache()

    def _encode_batch(
        self, vectors: GraphedEncoder, recordings: Sequence[NDArray[np.float32]], codes: Sequence[bool]
    ) -> list[Voice]:
        in_context = [index for index, wanted in enumerate(codes) if wanted]
        flight = vectors.launch(recordings)
        frames: dict[int, NDArray[np.int64]] = {}
        if in_context and self._codes is not None:
            heard = self._codes.launch([recordings[index] for index in in_context]).collect()
            for index, row in zip(in_context, heard, strict=True):
                frames[index] = row[: _frames(len(recordings[index]))].astype(np.int64)
        return [Voice(vector.astype(np.float32), frames.get(index)) for index, vector in enumerate(flight.collect())]

    def _encode_one(self, recording: NDArray[np.float32], codes: bool) -> Voice:
        samples = torch.from_numpy(np.array(recording))
        vector = self._speaker(samples).cpu().numpy()
        return Voice(vector, self._speech(samples).cpu().numpy() if codes else None)


def _lane_on(device: torch.device) -> Lane:
    return CudaLane(device, sleeping=True, urgent=False) if device.type == "cuda" else HostLane()


def _frames(samples: int) -> int:
    return -(-samples // SAMPLES_PER_FRAME)


def _codes_shape(samples: int) -> tuple[int, int]:
    return _frames(samples), CODEBOOKS
