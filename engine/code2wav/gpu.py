"""Decodes batches of streams on a GPU with CUDA graphs: one upload, one graph launch, one download per batch."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.code2wav.prefix_cache import PrefixCache
from engine.code2wav.schedule import CHUNKS, COUNTS
from engine.device.streams import DeviceStream, Mark
from engine.kernels.codec_ops import Ops
from engine.models.code2wav_gpu import RowDecoder, RowWeights, StreamMemory, Workspace
from engine.protocol.request import CODEBOOKS, SAMPLES_PER_FRAME
from engine.protocol.samples import to_float32

_ALIGNED = 16
_log = logging.getLogger(__name__)


class PendingGraphBatch:
    """A ``PendingBatch`` whose samples are copied to pinned memory. ``mark``: the event after the copy."""

    def __init__(self, samples: NDArray[np.int16], mark: Mark) -> None:
        self._samples, self._mark = samples, mark

    @property
    def done(self) -> bool:
        """Whether the download is finished."""
        return self._mark.query()

    def collect(self) -> NDArray[np.int16]:
        """Wait for the download and return the samples."""
        self._mark.synchronize()
        return self._samples


class _StagingBuffer:
    """Pinned host memory for the inputs and the samples of one batch in flight."""

    def __init__(self, lane: DeviceStream, given: int, samples: int) -> None:
        self.up, self.down = lane.pinned(given, torch.int64), lane.pinned(samples, torch.int16)
        self.given: NDArray[np.int64] = self.up.numpy()
        self.samples: NDArray[np.int16] = self.down.numpy()


class GraphedDecoder:
    """``Decoder`` for a GPU.

    weights: must be created inside ``lane``. lane: the CUDA stream of all work. sizes: (streams, frames) of the
    batches to capture, see ``captured_sizes``.

    The memory of a free row is always cleared, ready for a new stream. A batch is padded with the spare row.
    """

    padded = True

    @torch.inference_mode()
    def __init__(
        self, weights: RowWeights, ops: Ops, lane: DeviceStream, *, rows: int, sizes: Sequence[tuple[int, int]]
    ) -> None:
        began = time.monotonic()
        self._weights, self._lane = weights, lane
        self._decoder = RowDecoder(weights, ops)
        self._free = list(range(rows))
        self._primed = PrefixCache()
        self._sizes = sorted(sizes)
        self._codes_at = -(-max(streams for streams, _ in sizes) // _ALIGNED) * _ALIGNED
        most = max(map(_frames, sizes))
        given, samples = self._codes_at + most * CODEBOOKS, most * SAMPLES_PER_FRAME
        self._berths = [_StagingBuffer(lane, given, samples) for _ in range(2)]
        with lane.inside():
            self._memory = StreamMemory(weights, rows)
            self._given = torch.zeros(given, dtype=torch.int64, device=lane.device)
            self._samples = torch.zeros(samples, dtype=torch.int16, device=lane.device)
            work = max(Workspace.size(weights, *size) for size in sizes)
            self._work = torch.zeros(work, dtype=weights.dtype, device=lane.device)
            self._launches = {size: self._captured(*size) for size in sorted(sizes, key=_frames, reverse=True)}
            lane.mark().synchronize()
        _log.info(
            "Code2Wav captured batches of %d sizes, of up to %d frames, in %.1f s: %.0f MB for %d streams, "
            "%.0f MB for a batch", len(sizes), most, time.monotonic() - began, self._memory.bytes / 1e6, rows,
            self._work.nbytes / 1e6,
        )  # fmt: skip

    @property
    def free_rows(self) -> int:
        """See ``Decoder.free_rows``."""
        return len(self._free)

    @property
    def hits(self) -> int:
        """See ``Decoder.hits``."""
        return self._primed.hits

    @property
    def misses(self) -> int:
        """See ``Decoder.misses``."""
        return self._primed.misses

    @torch.inference_mode()
    def begin(self, context: NDArray[np.int16] | None) -> int:
        """See ``Decoder.begin``."""
        row = self._free[-1]
        if context is not None:
            with self._lane.inside():
                try:
                    self._recall(row, context)
                except Exception:
                    self._memory.clear(row)
                    raise
        return self._free.pop()

    @torch.inference_mode()
    def end(self, row: int) -> None:
        """See ``Decoder.end``."""
        with self._lane.inside():
            self._memory.clear(row)
        self._free.append(row)

    @torch.inference_mode()
    def launch(self, rows: Sequence[int], codes: NDArray[np.int16]) -> PendingGraphBatch:
        """See ``Decoder.launch``."""
        streams, frames = codes.shape[:2]
        size = self._size(streams, frames)
        berth = self._berths[0]
        self._berths.reverse()
        berth.given[:streams] = rows
        berth.given[streams : size[0]] = self._memory.spare
        given = self._codes_at + codes.size
        berth.given[self._codes_at : given] = codes.ravel()
        samples = streams * frames * SAMPLES_PER_FRAME
        with self._lane.inside():
            self._given[:given].copy_(berth.up[:given], non_blocking=True)
            self._launches[size]()
            berth.down[:samples].copy_(self._samples[:samples], non_blocking=True)
            mark = self._lane.mark()
        return PendingGraphBatch(berth.samples[:samples].reshape(streams, -1), mark)

    def decode(self, rows: Sequence[int], codes: NDArray[np.int16]) -> NDArray[np.float32]:
        """See ``Decoder.decode``. Splits the frames into pieces of captured sizes."""
        heard = [
            to_float32(self.launch(rows, codes[:, start : start + frames]).collect())
            for start, frames in self._pieces(len(rows), codes.shape[1])
        ]
        return np.concatenate(heard, axis=1)

    def _size(self, streams: int, frames: int) -> tuple[int, int]:
        """Return the smallest captured size that fits the batch. Raises ValueError when none fits."""
        for size in self._sizes:
            if size[0] >= streams and size[1] == frames:
                return size
        raise ValueError(f"no batch of {streams} streams with {frames} frames each was captured")

    def _pieces(self, streams: int, frames: int) -> Iterator[tuple[int, int]]:
        """Yield (first frame, frames) of each piece. Raises ValueError when no captured size fits."""
        sizes = sorted({size[1] for size in self._sizes if size[0] >= streams}, reverse=True)
        start = 0
        while start < frames:
            length = next((size for size in sizes if size <= frames - start), 0)
            if not length:
                raise ValueError(f"no batch of {streams} streams with up to {frames - start} frames was captured")
            yield start, length
            start += length

    def _captured(self, streams: int, frames: int) -> Callable[[], None]:
        space = Workspace(self._weights, streams, frames, self._work)
        rows = self._given[:streams]
        rows.fill_(self._memory.spare)
        codes = self._given[self._codes_at :][: streams * frames * CODEBOOKS].view(streams, frames, CODEBOOKS)
        samples = self._samples[: streams * frames * SAMPLES_PER_FRAME].view(streams, -1)
        return self._lane.captured(lambda: self._decoder.decode(codes, rows, self._memory, space, samples))

    def _recall(self, row: int, context: NDArray[np.int16]) -> None:
        """Copy the state after ``context`` into the memory of ``row``."""
        state = self._primed.after(context, lambda: self._prime(context))
        for tensor, kept in zip(self._memory.of(row), state, strict=True):
            tensor.copy_(kept)

    def _prime(self, context: NDArray[np.int16]) -> list[Tensor]:
        """Compute the state after ``context``, using the spare row."""
        spare, codes = self._memory.spare, self._uploaded(context)
        self._memory.clear(spare)
        self._given[:1].fill_(spare)
        for start, frames in self._pieces(1, len(context)):
            self._given[self._codes_at :][: frames * CODEBOOKS].copy_(codes[start : start + frames].flatten())
            self._launches[1, frames]()
        return [tensor.clone() for tensor in self._memory.of(spare)]

    def _uploaded(self, codes: NDArray[np.int16]) -> Tensor:
        pinned = self._lane.pinned(codes.size, torch.int64)
        pinned.numpy()[:] = codes.ravel()
        return pinned.to(self._lane.device, non_blocking=True).view(-1, CODEBOOKS)


def captured_sizes(streams: int, max_chunk_frames: int, max_batch_frames: int) -> list[tuple[int, int]]:
    """Return (streams, frames) of every batch that the schedule may pick, and of the pieces of a reference."""
    largest = next((count for count in COUNTS if count >= streams), COUNTS[-1])
    sizes = {(1, frames) for frames in CHUNKS}
    for frames in CHUNKS:
        if frames <= max_chunk_frames:
            sizes |= {(count, frames) for count in COUNTS if count <= largest and count * frames <= max_batch_frames}
    return sorted(sizes)


def _frames(size: tuple[int, int]) -> int:
    return size[0] * size[1]
