"""Streaming audio filters: resampling, and time stretching that preserves pitch."""

from __future__ import annotations

import math
from fractions import Fraction

import av
import numpy as np
import soxr
from av.audio.frame import AudioFrame
from av.filter import Graph
from numpy.typing import NDArray


class Resampler:
    """A streaming soxr resampler. The output is the same as when all samples are resampled at once."""

    def __init__(self, rate: int, target: int) -> None:
        self._stream = soxr.ResampleStream(rate, target, 1, dtype="float32", quality="HQ")

    def process(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the output samples that these samples complete."""
        return self._resample(samples, last=False)

    def flush(self) -> NDArray[np.float32]:
        """Return the remaining output, after the last input sample."""
        return self._resample(np.zeros(0, np.float32), last=True)

    def _resample(self, samples: NDArray[np.float32], last: bool) -> NDArray[np.float32]:
        output: NDArray[np.float32] = self._stream.resample_chunk(np.ascontiguousarray(samples), last=last)
        return output


_BLOCK = 480
"""Samples per filter input frame (20 ms at 24 kHz). The filter's output depends on its input frame sizes. A fixed size
makes the output independent of how the caller splits the samples."""


class Stretch:
    """Changes the speed with FFmpeg's ``atempo`` (waveform similarity overlap-add), preserving pitch.

    Filters with factors between 0.5 and 2 are chained: above 2 ``atempo`` skips samples, below 0.5 it is not defined.
    """

    def __init__(self, speed: float, rate: int) -> None:
        self._rate, self._pushed = rate, 0
        self._pending = np.zeros(0, np.float32)
        self._graph = Graph()
        source = self._graph.add_abuffer(format="flt", sample_rate=rate, layout="mono", time_base=Fraction(1, rate))
        tempos = [self._graph.add("atempo", f"{step:.9f}") for step in _steps(speed)]
        self._graph.link_nodes(source, *tempos, self._graph.add("abuffersink")).configure()

    def process(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the output samples that these samples complete."""
        self._pending = np.concatenate([self._pending, samples])
        ready = len(self._pending) // _BLOCK * _BLOCK
        blocks, self._pending = self._pending[:ready], self._pending[ready:]
        return _concatenate([self._filter(block) for block in blocks.reshape(-1, _BLOCK)])

    def flush(self) -> NDArray[np.float32]:
        """Return the remaining output, after the last input sample."""
        last = [self._filter(self._pending)] if len(self._pending) else []
        self._graph.push(None)
        return _concatenate([*last, self._pull()])

    def _filter(self, block: NDArray[np.float32]) -> NDArray[np.float32]:
        frame = AudioFrame.from_ndarray(block[np.newaxis], format="flt", layout="mono")
        frame.sample_rate = self._rate
        frame.pts = self._pushed
        self._pushed += len(block)
        self._graph.push(frame)
        return self._pull()

    def _pull(self) -> NDArray[np.float32]:
        frames: list[NDArray[np.float32]] = []
        while True:
            try:
                frame = self._graph.pull()
            except (av.BlockingIOError, av.EOFError):
                return _concatenate(frames)
            assert isinstance(frame, AudioFrame)
            frames.append(frame.to_ndarray()[0])


def _steps(speed: float) -> list[float]:
    """Return equal factors between 0.5 and 2 whose product is ``speed``."""
    count = max(1, math.ceil(abs(math.log2(speed))))
    return [speed ** (1 / count)] * count


def _concatenate(parts: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    return np.concatenate([np.zeros(0, np.float32), *parts])
