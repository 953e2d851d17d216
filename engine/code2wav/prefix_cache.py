"""LRU cache of the decoder state after a voice's reference audio."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

_CAPACITY = 16


class PrefixCache:
    """Keeps the ``_CAPACITY`` states used most recently, by the SHA-256 of their reference codes.

    hits, misses: cache hits and misses since the start.
    """

    def __init__(self) -> None:
        self._states: OrderedDict[bytes, list[Tensor]] = OrderedDict()
        self.hits = self.misses = 0

    def get(self, context: NDArray[np.int16], compute: Callable[[], list[Tensor]]) -> list[Tensor]:
        """Return the decoder state after the frames ``context`` [R, 16]. On a cache miss, call ``compute``."""
        key = hashlib.sha256(context.tobytes()).digest()
        state = self._states.pop(key, None)
        self.hits += state is not None
        self.misses += state is None
        self._states[key] = compute() if state is None else state
        if len(self._states) > _CAPACITY:
            self._states.popitem(last=False)
        return self._states[key]
