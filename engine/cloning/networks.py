"""Runs the speaker encoder and the speech encoder (SPEC 7 and 8), on single recordings or in captured batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.checkpoint.folder import Checkpoint
from engine.device.streams import CudaStream, DeviceStream, HostStream, Mark
from engine.models.speaker_encoder import SpeakerEncoder
from engine.models.speech_encoder import SpeechEncoder
from engine.protocol.request import CODEBOOKS, SAMPLE_RATE, SAMPLES_PER_FRAME, Voice

_COUNTS = (1, 2, 4, 8)
_SECONDS = (4, 8, 12, 16, 22, 30)
_MOST_SECONDS = 32
"""Maximum audio of a batch, in seconds. The largest tensors of such a batch are 196 MB."""
_WASTE = 1.5
"""Maximum size of a joint batch, relative to the recordings' separate batches. One batch saves launches."""


class BatchSizes:
    """The available batch sizes, each as (recordings, samples per recording). Shorter recordings are padded."""

    def __init__(self, sizes: Iterable[tuple[int, int]]) -> None:
        self.all = sorted(sizes, key=_area)

    def smallest(self, count: int, longest: int) -> tuple[int, int] | None:
        """Return the smallest batch size that fits ``count`` recordings of at most ``longest`` samples, or None."""
        return next((size for size in self.all if size[0] >= count and size[1] >= longest), None)

    def together(self, lengths: Iterable[int]) -> int:
        """Return how many of the leading recordings to encode as one batch; 0 if no batch size fits the first.

        lengths: samples of each recording.
        """
        best, longest, alone = 0, 0, 0
        for count, length in enumerate(lengths, 1):
            longest = max(longest, length)
            size, own = self.smallest(count, longest), self.smallest(1, length)
            if size is None or own is None:
                break
            alone += _area(own)
            if _area(size) <= _WASTE * alone:
                best = count
        return best


def captured_sizes() -> BatchSizes:
    """Return the batch sizes for a GPU: from one recording of up to 30 s to eight of up to 4 s."""
    return BatchSizes(
        (count, seconds * SAMPLE_RATE) for count in _COUNTS for seconds in _SECONDS if count * seconds <= _MOST_SECONDS
    )


class PendingEncoding:
    """A batch in flight."""

    def __init__(self, encoded: Tensor, mark: Mark) -> None:
        self._encoded, self._mark = encoded, mark

    def collect(self) -> NDArray[np.generic]:
        """Wait for the batch and return its result, one row per recording. Valid until the encoder's next launch."""
        self._mark.synchronize()
        return self._encoded.numpy()


class GraphedEncoder:
    """An encoder whose batches of all ``sizes`` are captured on the device stream ``lane``.

    work: maps recordings, float32 [rows, n], and their lengths without padding, int64 [rows], to a tensor
    [rows, *shape(n)] of ``dtype``. It must not wait for the device.
    shortest: minimum samples of a recording that ``work`` accepts.
    """

    @torch.inference_mode()
    def __init__(
        self,
        work: Callable[[Tensor, Tensor], Tensor],
        lane: DeviceStream,
        sizes: BatchSizes,
        *,
        shape: Callable[[int], tuple[int, ...]],
        dtype: torch.dtype,
        shortest: int,
    ) -> None:
        self._work, self._lane, self._sizes, self._shape, self._shortest = work, lane, sizes, shape, shortest
        samples, rows = max(map(_area, sizes.all)), max(count for count, _ in sizes.all)
        encoded = max(count * int(np.prod(shape(longest))) for count, longest in sizes.all)
        self._up, self._up_lengths = lane.pinned(samples, torch.float32), lane.pinned(rows, torch.int64)
        self._down = lane.pinned(encoded, dtype)
        with lane.inside():
            self._samples = torch.zeros(samples, device=lane.device)
            self._lengths = torch.zeros(rows, dtype=torch.int64, device=lane.device)
            self._encoded = torch.zeros(encoded, dtype=dtype, device=lane.device)
            self._launches = {size: self._captured(size) for size in reversed(sizes.all)}
            lane.mark().synchronize()

    @torch.inference_mode()
    def launch(self, recordings: Sequence[NDArray[np.float32]]) -> PendingEncoding:
        """Start encoding a batch. Collect the previous batch first.

        Raises ValueError if no captured batch fits the recordings.
        """
        size = self._sizes.smallest(len(recordings), max(map(len, recordings)))
        if size is None:
            raise ValueError(f"no batch of {len(recordings)} recordings as long as these was captured")
        self._fill(recordings, size)
        shape = (len(recordings), *self._shape(size[1]))
        encoded = int(np.prod(shape))
        with self._lane.inside():
            self._samples[: _area(size)].copy_(self._up[: _area(size)], non_blocking=True)
            self._lengths[: size[0]].copy_(self._up_lengths[: size[0]], non_blocking=True)
            self._launches[size]()
            self._down[:encoded].copy_(self._encoded[:encoded], non_blocking=True)
            mark = self._lane.mark()
        return PendingEncoding(self._down[:encoded].view(shape), mark)

    def _fill(self, recordings: Sequence[NDArray[np.float32]], size: tuple[int, int]) -> None:
        """Copy the batch to pinned memory.

        Stale samples of the previous batch remain only past a recording's length. An unused row gets the length
        ``shortest``, and its result is ignored.
        """
        rows, lengths = self._up[: _area(size)].view(size).numpy(), self._up_lengths.numpy()
        lengths[:] = self._shortest
        for row, recording in zip(rows, recordings, strict=False):
            row[: len(recording)] = recording
        lengths[: len(recordings)] = [len(recording) for recording in recordings]

    def _captured(self, size: tuple[int, int]) -> Callable[[], None]:
        count, longest = size
        samples, lengths = self._samples[: _area(size)].view(size), self._lengths[:count]
        shape = (count, *self._shape(longest))
        encoded = self._encoded[: int(np.prod(shape))].view(shape)
        lengths.fill_(longest)

        def work() -> None:
            encoded.copy_(self._work(samples, lengths))

        return self._lane.captured(work)


def _area(size: tuple[int, int]) -> int:
    return size[0] * size[1]


SHORTEST = SAMPLE_RATE // 10
"""Minimum samples of a recording. A shorter one does not fill the widest kernels of the speaker encoder."""
_log = logging.getLogger(__name__)


class ReferenceNetworks:
    """The speaker encoder and the speech encoder of a checkpoint, on ``device``. Not thread-safe.

    On a GPU they run on their own CUDA stream, so that no talker step waits for them. The thread that waits for a
    result sleeps.

    can_clone: whether the checkpoint has a speaker encoder. can_clone_in_context: whether it has both encoders.
    """

    def __init__(self, checkpoint: Checkpoint, device: torch.device) -> None:
        model, codec = checkpoint.model.speaker_encoder, checkpoint.codec.encoder
        self.can_clone = model is not None
        self.can_clone_in_context = model is not None and codec is not None
        self._lane = _stream_on(device)
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
        """Capture batches of ``sizes``, so that each is one launch. Nothing else may use the GPU during the capture.

        The GPU memory that the captured batches use stays allocated.
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
        """Return how many of the leading recordings to pass to one ``encode`` call; at least 1.

        lengths: samples of each recording.
        """
        return max(1, self._sizes.together(lengths))

    @torch.inference_mode()
    def encode(self, recordings: Sequence[NDArray[np.float32]], codes: Sequence[bool]) -> list[Voice]:
        """Return the voices of recordings of at least ``SHORTEST`` samples.

        codes: for each recording, whether its voice includes codes for in-context cloning.
        """
        if self._vectors is not None and self._sizes.smallest(len(recordings), max(map(len, recordings))):
            return self._encode_batch(self._vectors, recordings, codes)
        with self._lane.inside():
            voices = [self._encode_one(*each) for each in zip(recordings, codes, strict=True)]
        self.give_back()
        return voices

    def give_back(self) -> None:
        """Release the GPU memory that torch caches. Captured batches keep theirs.

        Otherwise torch would keep the memory of one long recording forever, and others on the GPU need it.
        """
        if self._lane.device.type == "cuda":
            torch.cuda.empty_cache()

    def _encode_batch(
        self, vectors: GraphedEncoder, recordings: Sequence[NDArray[np.float32]], codes: Sequence[bool]
    ) -> list[Voice]:
        in_context = [index for index, wanted in enumerate(codes) if wanted]
        pending = vectors.launch(recordings)
        frames: dict[int, NDArray[np.int64]] = {}
        if in_context and self._codes is not None:
            heard = self._codes.launch([recordings[index] for index in in_context]).collect()
            for index, row in zip(in_context, heard, strict=True):
                frames[index] = row[: _frames(len(recordings[index]))].astype(np.int64)
        return [Voice(vector.astype(np.float32), frames.get(index)) for index, vector in enumerate(pending.collect())]

    def _encode_one(self, recording: NDArray[np.float32], codes: bool) -> Voice:
        samples = torch.from_numpy(np.array(recording))
        vector = self._speaker(samples).cpu().numpy()
        return Voice(vector, self._speech(samples).cpu().numpy() if codes else None)


def _stream_on(device: torch.device) -> DeviceStream:
    return CudaStream(device, sleeping=True, urgent=False) if device.type == "cuda" else HostStream()


def _frames(samples: int) -> int:
    return -(-samples // SAMPLES_PER_FRAME)


def _codes_shape(samples: int) -> tuple[int, int]:
    return _frames(samples), CODEBOOKS
