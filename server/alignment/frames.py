"""Encodes speech into rows of the network while it arrives. The rows are those of the whole speech at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from server.alignment.features import HOP, MELS, WINDOW, log_mel
from server.alignment.network import Array, Network

_LEAD = (WINDOW - HOP) // 2
"""Samples that a frame needs before and after its own ones."""


class FrameEncoder:
    """Keeps the samples and features that later rows depend on."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._samples = np.zeros(0, np.int16)
        """Samples from one frame before the next frame on, or from the start."""
        self._skip = 0
        """Frames at the start of ``_samples`` whose features are known."""
        self._features = np.zeros((0, MELS), np.float32)
        """Features from at most ``halo`` frames before the next row on."""
        self._known = 0
        """Frames at the start of ``_features`` whose rows are known."""

    def add(self, samples: NDArray[np.int16]) -> Array:
        """Return the rows [n, width] that these samples complete."""
        self._samples = np.concatenate([self._samples, samples])
        complete = max(0, (len(self._samples) - _LEAD) // HOP)
        if complete <= self._skip:
            return self._rows(np.zeros((0, MELS), np.float32), last=False)
        features = log_mel(self._samples)[self._skip : complete]
        self._samples, self._skip = self._samples[(complete - 1) * HOP :], 1
        return self._rows(features, last=False)

    def finish(self) -> Array:
        """Return the remaining rows."""
        return self._rows(log_mel(self._samples)[self._skip :], last=True)

    def _rows(self, features: Array, *, last: bool) -> Array:
        self._features = np.concatenate([self._features, features])
        halo = self._network.halo
        complete = len(self._features) - (0 if last else halo)
        if complete <= self._known:
            return np.zeros((0, self._network.width), np.float32)
        rows = self._network.encode_frames(self._features)[self._known : complete]
        kept = max(0, complete - halo)
        self._features, self._known = self._features[kept:], complete - kept
        return rows
