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
from engine.device.streams import CudaStream, DeviceStream, Event, HostStream
from engine.models.speaker_encoder import SpeakerEncoder
from engine.models.speech_encoder import SpeechEncoder
from engine.protocol.request import CODEBOOKS, SAMPLE_RATE, SAMPLES_PER_FRAME, Voice

MIN_SAMPLES = SAMPLE_RATE // 10
"""Minimum samples of a recording. A shorter one does not fill the widest kernels of the speaker encoder."""
_BATCH_SIZES = (1, 2, 4, 8)
_RECORDING_SECONDS = (4, 8, 12, 16, 22, 30)
_MAX_BATCH_SECONDS = 32
"""Maximum audio of a batch, in seconds. The largest tensors of such a batch are 196 MB."""
_MAX_PADDING_RATIO = 1.5
"""Maximum size of a joint batch, relative to the recordings' separate batches. One batch saves launches."""
_log = logging.getLogger(__name__)


class BatchSizes:
    """The available batch sizes, each as (recordings, samples per recording). Shorter recordings are padded."""

    def __init__(self, sizes: Iterable[tuple[int, int]]) -> None:
        self.all = sorted(sizes, key=_padded_samples)

    def smallest_fitting(self, count: int, longest: int) -> tuple[int, int] | None:
        """Return the smallest batch size that fits ``count`` recordings of at most ``longest`` samples, or None."""
        return next((size for size in self.all if size[0] >= count and size[1] >= longest), None)

    def batch_size(self, lengths: Iterable[int]) -> int:
        """Return how many of the leading recordings to encode as one batch; 0 if no batch size fits the first.

        lengths: samples of each recording.
        """
        best, longest, separate = 0, 0, 0
        for count, length in enumerate(lengths, 1):
            longest = max(longest, length)
            size, separate_size = self.smallest_fitting(count, longest), self.smallest_fitting(1, length)
            if size is None or separate_size is None:
                break
            separate += _padded_samples(separate_size)
            if _padded_samples(size) <= _MAX_PADDING_RATIO * separate:
                best = count
        return best


def captured_sizes() -> BatchSizes:
    """Return the batch sizes for a GPU: from one recording of up to 30 s to eight of up to 4 s."""
    return BatchSizes(
        (count, seconds * SAMPLE_RATE)
        for count in _BATCH_SIZES
        for seconds in _RECORDING_SECONDS
        if count * seconds <= _MAX_BATCH_SECONDS
    )


class PendingEncoding:
    """A batch in flight."""

    def __init__(self, encoded: Tensor, event: Event) -> None:
        self._encoded, self._event = encoded, event

    def collect(self) -> NDArray[np.generic]:
        """Wait for the batch and return its result, one row per recording. Valid until the encoder's next launch."""
        self._event.synchronize()
        return self._encoded.numpy()


class GraphedEncoder:
    """An encoder whose batches of all ``sizes`` are captured on ``stream``.

    encode: maps recordings, float32 [rows, n], and their lengths without padding, int64 [rows], to a tensor
    [rows, *shape(n)] of ``dtype``. It must not wait for the device.
    min_samples: minimum samples of a recording that ``encode`` accepts.
    """

    @torch.inference_mode()
    def __init__(
        self,
        encode: Callable[[Tensor, Tensor], Tensor],
        stream: DeviceStream,
        sizes: BatchSizes,
        *,
        shape: Callable[[int], tuple[int, ...]],
        dtype: torch.dtype,
        min_samples: int,
    ) -> None:
        self._encode, self._stream, self._sizes = encode, stream, sizes
        self._shape, self._min_samples = shape, min_samples
        samples, rows = max(map(_padded_samples, sizes.all)), max(count for count, _ in sizes.all)
        encoded = max(count * int(np.prod(shape(longest))) for count, longest in sizes.all)
        self._host_samples = stream.pinned(samples, torch.float32)
        self._host_lengths = stream.pinned(rows, torch.int64)
        self._host_encoded = stream.pinned(encoded, dtype)
        with stream.context():
            self._samples = torch.zeros(samples, device=stream.device)
            self._lengths = torch.zeros(rows, dtype=torch.int64, device=stream.device)
            self._encoded = torch.zeros(encoded, dtype=dtype, device=stream.device)
            self._launches = {size: self._capture(size) for size in reversed(sizes.all)}
            stream.record_event().synchronize()

    @torch.inference_mode()
    def launch(self, recordings: Sequence[NDArray[np.float32]]) -> PendingEncoding:
        """Start encoding a batch. Collect the previous batch first.

        Raises ValueError if no captured batch fits the recordings.
        """
        size = self._sizes.smallest_fitting(len(recordings), max(map(len, recordings)))
        if size is None:
            longest = max(map(len, recordings))
            raise ValueError(f"no captured batch fits {len(recordings)} recordings of up to {longest} samples")
        self._fill(recordings, size)
        shape = (len(recordings), *self._shape(size[1]))
        encoded = int(np.prod(shape))
        with self._stream.context():
            self._samples[: _padded_samples(size)].copy_(self._host_samples[: _padded_samples(size)], non_blocking=True)
            self._lengths[: size[0]].copy_(self._host_lengths[: size[0]], non_blocking=True)
            self._launches[size]()
            self._host_encoded[:encoded].copy_(self._encoded[:encoded], non_blocking=True)
            event = self._stream.record_event()
        return PendingEncoding(self._host_encoded[:encoded].view(shape), event)

    def _fill(self, recordings: Sequence[NDArray[np.float32]], size: tuple[int, int]) -> None:
        """Copy the batch to pinned memory.

        Stale samples of the previous batch remain only past a recording's length. An unused row gets the length
        ``min_samples``, and its result is ignored.
        """
        rows, lengths = self._host_samples[: _padded_samples(size)].view(size).numpy(), self._host_lengths.numpy()
        lengths[:] = self._min_samples
        for row, recording in zip(rows, recordings, strict=False):
            row[: len(recording)] = recording
        lengths[: len(recordings)] = [len(recording) for recording in recordings]

    def _capture(self, size: tuple[int, int]) -> Callable[[], None]:
        count, longest = size
        samples, lengths = self._samples[: _padded_samples(size)].view(size), self._lengths[:count]
        shape = (count, *self._shape(longest))
        encoded = self._encoded[: int(np.prod(shape))].view(shape)
        lengths.fill_(longest)

        def run() -> None:
            encoded.copy_(self._encode(samples, lengths))

        return self._stream.capture(run)


def _padded_samples(size: tuple[int, int]) -> int:
    return size[0] * size[1]


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
        self._stream = _make_stream(device)
        self._sizes = BatchSizes([])
        self._batched_speaker: GraphedEncoder | None = None
        self._batched_speech: GraphedEncoder | None = None
        with self._stream.context():
            if model is not None:
                self._speaker = SpeakerEncoder(checkpoint.tensors("speaker_encoder."), model, device=device)
            if model is not None and codec is not None:
                self._speech = SpeechEncoder(checkpoint.codec_tensors("encoder."), codec, device=device)
            self._stream.record_event().synchronize()

    def capture(self, sizes: BatchSizes) -> None:
        """Capture batches of ``sizes``, so that each is one launch. Nothing else may use the GPU during the capture.

        The GPU memory that the captured batches use stays allocated.
        """
        if not self.can_clone:
            return
        started = time.monotonic()
        if self.can_clone_in_context:
            self._batched_speech = GraphedEncoder(
                self._speech.batch,
                self._stream,
                sizes,
                shape=_codes_shape,
                dtype=torch.int64,
                min_samples=MIN_SAMPLES,
            )
        width = self._speaker.architecture.width
        self._batched_speaker = GraphedEncoder(
            self._speaker.batch,
            self._stream,
            sizes,
            shape=lambda _: (width,),
            dtype=torch.float32,
            min_samples=MIN_SAMPLES,
        )
        self._sizes = sizes
        self.empty_cache()
        seconds = time.monotonic() - started
        _log.info("the reference encoders captured batches of %d sizes in %.1f s", len(sizes.all), seconds)

    def batch_size(self, lengths: Sequence[int]) -> int:
        """Return how many of the leading recordings to pass to one ``encode`` call; at least 1.

        lengths: samples of each recording.
        """
        return max(1, self._sizes.batch_size(lengths))

    @torch.inference_mode()
    def encode(self, recordings: Sequence[NDArray[np.float32]], codes: Sequence[bool]) -> list[Voice]:
        """Return the voices of recordings of at least ``MIN_SAMPLES`` samples.

        codes: for each recording, whether its voice includes codes for in-context cloning.
        """
        fits = self._sizes.smallest_fitting(len(recordings), max(map(len, recordings)))
        if self._batched_speaker is not None and fits:
            return self._encode_batch(self._batched_speaker, recordings, codes)
        with self._stream.context():
            voices = [self._encode_one(*each) for each in zip(recordings, codes, strict=True)]
        self.empty_cache()
        return voices

    def empty_cache(self) -> None:
        """Release the GPU memory that torch caches. Captured batches keep theirs.

        Otherwise torch would keep the memory of one long recording forever, and others on the GPU need it.
        """
        if self._stream.device.type == "cuda":
            torch.cuda.empty_cache()

    def _encode_batch(
        self, speaker: GraphedEncoder, recordings: Sequence[NDArray[np.float32]], codes: Sequence[bool]
    ) -> list[Voice]:
        in_context = [index for index, with_codes in enumerate(codes) if with_codes]
        pending = speaker.launch(recordings)
        frames: dict[int, NDArray[np.int64]] = {}
        if in_context and self._batched_speech is not None:
            rows = self._batched_speech.launch([recordings[index] for index in in_context]).collect()
            for index, row in zip(in_context, rows, strict=True):
                frames[index] = row[: _frames(len(recordings[index]))].astype(np.int64)
        return [Voice(vector.astype(np.float32), frames.get(index)) for index, vector in enumerate(pending.collect())]

    def _encode_one(self, recording: NDArray[np.float32], codes: bool) -> Voice:
        samples = torch.from_numpy(np.array(recording))
        vector = self._speaker(samples).cpu().numpy()
        return Voice(vector, self._speech(samples).cpu().numpy() if codes else None)


def _make_stream(device: torch.device) -> DeviceStream:
    return CudaStream(device, blocking=True, high_priority=False) if device.type == "cuda" else HostStream()


def _frames(samples: int) -> int:
    return -(-samples // SAMPLES_PER_FRAME)


def _codes_shape(samples: int) -> tuple[int, int]:
    return _frames(samples), CODEBOOKS
