"""Decodes batches of streams on a GPU with CUDA graphs: one upload, one graph launch, one download per batch."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from engine.code2wav.base import Decoder, PendingBatch
from engine.code2wav.prefix_cache import PrefixCache
from engine.code2wav.schedule import CHUNKS, PADDED_BATCHES
from engine.device.first_frame import FirstFrame
from engine.device.streams import DeviceStream, Event
from engine.kernels.codec_ops import Ops
from engine.models.code2wav_gpu import RowDecoder, RowWeights, StreamMemory, Workspace
from engine.protocol.request import CODEBOOKS, SAMPLES_PER_FRAME
from engine.protocol.samples import to_float32

_ALIGNMENT = 16
_log = logging.getLogger(__name__)


class PendingGraphBatch(PendingBatch):
    """A batch whose samples are copied to pinned memory. event: after the copy."""

    def __init__(self, samples: NDArray[np.int16], event: Event) -> None:
        self._samples, self._event = samples, event

    @property
    @override
    def done(self) -> bool:
        return self._event.query()

    @override
    def collect(self) -> NDArray[np.int16]:
        self._event.synchronize()
        return self._samples


class PendingFirstFrame(PendingGraphBatch):
    """A batch of one frame whose codes came from the device.

    codes: int64 [16], those that were decoded, valid after ``collect``.
    """

    def __init__(self, samples: NDArray[np.int16], event: Event, codes: NDArray[np.int64]) -> None:
        super().__init__(samples, event)
        self.codes = codes


class _StagingBuffer:
    """Pinned host memory for the inputs and the samples of one batch in flight."""

    def __init__(self, device_stream: DeviceStream, inputs: int, samples: int) -> None:
        self.pinned_inputs = device_stream.pinned(inputs, torch.int64)
        self.pinned_samples = device_stream.pinned(samples, torch.int16)
        self.inputs: NDArray[np.int64] = self.pinned_inputs.numpy()
        self.samples: NDArray[np.int16] = self.pinned_samples.numpy()
        self.copied: Event | None = None


class GraphedDecoder(Decoder):
    """Decodes on a GPU.

    weights: must be created in the context of ``device_stream``. device_stream: the CUDA stream of all work.
    sizes: (streams, frames) of the batches to capture, see ``captured_sizes``.

    The memory of a free row is always cleared, ready for a new stream. A batch is padded with the spare row.
    """

    padded = True

    @torch.inference_mode()
    def __init__(
        self, weights: RowWeights, ops: Ops, device_stream: DeviceStream, *, rows: int, sizes: Sequence[tuple[int, int]]
    ) -> None:
        started = time.monotonic()
        self._weights, self._device_stream = weights, device_stream
        self._decoder = RowDecoder(weights, ops)
        self._free = list(range(rows))
        self.prefix_cache = PrefixCache()
        self._sizes = sorted(sizes)
        self._codes_offset = -(-max(streams for streams, _ in sizes) // _ALIGNMENT) * _ALIGNMENT
        max_frames = max(map(_frames, sizes))
        inputs, samples = self._codes_offset + max_frames * CODEBOOKS, max_frames * SAMPLES_PER_FRAME
        self._staging = [_StagingBuffer(device_stream, inputs, samples) for _ in range(2)]
        with device_stream.context():
            self._memory = StreamMemory(weights, rows)
            self._inputs = torch.zeros(inputs, dtype=torch.int64, device=device_stream.device)
            self._samples = torch.zeros(samples, dtype=torch.int16, device=device_stream.device)
            work = max(Workspace.size(weights, *size) for size in sizes)
            self._work = torch.zeros(work, dtype=weights.dtype, device=device_stream.device)
            self._launches = {size: self._capture(*size) for size in sorted(sizes, key=_frames, reverse=True)}
            device_stream.record_event().synchronize()
        _log.info(
            "captured Code2Wav batches of %d sizes and up to %d frames in %.1f s: %.0f MB for %d streams, "
            "%.0f MB for a batch", len(sizes), max_frames, time.monotonic() - started, self._memory.bytes / 1e6, rows,
            self._work.nbytes / 1e6,
        )  # fmt: skip

    @property
    @override
    def free_rows(self) -> int:
        return len(self._free)

    @override
    @torch.inference_mode()
    def begin(self, context: NDArray[np.int16] | None) -> int:
        row = self._free[-1]
        if context is not None:
            with self._device_stream.context():
                try:
                    self._restore(row, context)
                except Exception:
                    self._memory.clear(row)
                    raise
        return self._free.pop()

    @override
    @torch.inference_mode()
    def end(self, row: int) -> None:
        with self._device_stream.context():
            self._memory.clear(row)
        self._free.append(row)

    @override
    @torch.inference_mode()
    def launch(self, rows: Sequence[int], codes: NDArray[np.int16]) -> PendingGraphBatch:
        streams, frames = codes.shape[:2]
        size = self._size(streams, frames)
        staging = self._staging[0]
        staging.inputs[:streams] = rows
        staging.inputs[streams : size[0]] = self._memory.spare
        inputs = self._codes_offset + codes.size
        staging.inputs[self._codes_offset : inputs] = codes.ravel()
        samples = streams * frames * SAMPLES_PER_FRAME
        with self._device_stream.context():
            self._inputs[:inputs].copy_(staging.pinned_inputs[:inputs], non_blocking=True)
            self._launches[size]()
            staging.pinned_samples[:samples].copy_(self._samples[:samples], non_blocking=True)
            staging.copied = self._device_stream.record_event(staging.copied)
        self._staging.reverse()  # not after a failed launch: the other buffer may belong to a batch in flight
        return PendingGraphBatch(staging.samples[:samples].reshape(streams, -1), staging.copied)

    @torch.inference_mode()
    def launch_first(self, row: int, frame: FirstFrame) -> PendingFirstFrame:
        """Start decoding the first frame of the stream in ``row`` as soon as its codes are on the device.

        Batches that are launched later wait for it. It counts as a batch in flight.
        """
        staging, codes = self._staging[0], slice(self._codes_offset, self._codes_offset + CODEBOOKS)
        staging.inputs[0] = row
        with self._device_stream.context():
            self._inputs[:1].copy_(staging.pinned_inputs[:1], non_blocking=True)
            self._device_stream.wait_for(frame.ready)
            self._inputs[codes].copy_(frame.codes[frame.row])
            self._launches[1, 1]()
            staging.pinned_samples[:SAMPLES_PER_FRAME].copy_(self._samples[:SAMPLES_PER_FRAME], non_blocking=True)
            staging.pinned_inputs[codes].copy_(self._inputs[codes], non_blocking=True)
            staging.copied = self._device_stream.record_event(staging.copied)
        self._staging.reverse()
        return PendingFirstFrame(staging.samples[None, :SAMPLES_PER_FRAME], staging.copied, staging.inputs[codes])

    @override
    def decode(self, rows: Sequence[int], codes: NDArray[np.int16]) -> NDArray[np.float32]:
        # Splits the frames into pieces of captured sizes.
        pieces = [
            to_float32(self.launch(rows, codes[:, start : start + frames]).collect())
            for start, frames in self._pieces(len(rows), codes.shape[1])
        ]
        return np.concatenate(pieces, axis=1)

    def _size(self, streams: int, frames: int) -> tuple[int, int]:
        """Return the smallest captured size that fits the batch. Raises ValueError when none fits."""
        for size in self._sizes:
            if size[0] >= streams and size[1] == frames:
                return size
        raise ValueError(f"no captured batch fits {streams} streams with {frames} frames each")

    def _pieces(self, streams: int, frames: int) -> Iterator[tuple[int, int]]:
        """Yield (first frame, frames) of each piece. Raises ValueError when no captured size fits."""
        sizes = sorted({size[1] for size in self._sizes if size[0] >= streams}, reverse=True)
        start = 0
        while start < frames:
            length = next((size for size in sizes if size <= frames - start), 0)
            if not length:
                raise ValueError(f"no captured batch fits {streams} streams with up to {frames - start} frames each")
            yield start, length
            start += length

    def _capture(self, streams: int, frames: int) -> Callable[[], None]:
        workspace = Workspace(self._weights, streams, frames, self._work)
        rows = self._inputs[:streams]
        rows.fill_(self._memory.spare)
        codes = self._inputs[self._codes_offset :][: streams * frames * CODEBOOKS].view(streams, frames, CODEBOOKS)
        samples = self._samples[: streams * frames * SAMPLES_PER_FRAME].view(streams, -1)
        return self._device_stream.capture(lambda: self._decoder.decode(codes, rows, self._memory, workspace, samples))

    def _restore(self, row: int, context: NDArray[np.int16]) -> None:
        """Copy the state after ``context`` into the memory of ``row``."""
        state = self.prefix_cache.get(context, lambda: self._prefill(context))
        for tensor, cached in zip(self._memory.of(row), state, strict=True):
            tensor.copy_(cached)

    def _prefill(self, context: NDArray[np.int16]) -> list[Tensor]:
        """Compute the state after ``context``, using the spare row."""
        spare, codes = self._memory.spare, self._upload(context)
        self._memory.clear(spare)
        self._inputs[:1].fill_(spare)
        for start, frames in self._pieces(1, len(context)):
            self._inputs[self._codes_offset :][: frames * CODEBOOKS].copy_(codes[start : start + frames].flatten())
            self._launches[1, frames]()
        return [tensor.clone() for tensor in self._memory.of(spare)]

    def _upload(self, codes: NDArray[np.int16]) -> Tensor:
        pinned = self._device_stream.pinned(codes.size, torch.int64)
        pinned.numpy()[:] = codes.ravel()
        return pinned.to(self._device_stream.device, non_blocking=True).view(-1, CODEBOOKS)


def captured_sizes(streams: int, max_chunk_frames: int, max_batch_frames: int) -> list[tuple[int, int]]:
    """Return (streams, frames) of every batch that the schedule may pick, and of the pieces of a reference."""
    largest = next((count for count in PADDED_BATCHES if count >= streams), PADDED_BATCHES[-1])
    sizes = {(1, frames) for frames in CHUNKS}
    for frames in CHUNKS:
        if frames <= max_chunk_frames:
            counts = [count for count in PADDED_BATCHES if count <= largest]
            sizes |= {(count, frames) for count in counts if count * frames <= max_batch_frames}
    return sorted(sizes)


def _frames(size: tuple[int, int]) -> int:
    return size[0] * size[1]
