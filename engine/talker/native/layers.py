"""The decoder layers of the native talker, with their cache: in plain torch, or in compiled kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor

from engine.models.talker import TalkerModel
from engine.talker.native.slot_cache import SlotCache

if TYPE_CHECKING:  # importing it imports numba, which a GPU does not need
    from engine.models.compiled_layers import CompiledLayers


class TalkerLayers(Protocol):
    """Maps input rows to hidden states after the final norm, and keeps keys and values of every slot."""

    def prefill(self, x: Tensor, slot: int, start: int) -> Tensor:
        """Run rows [rows, hidden] of one slot, at positions from ``start`` on."""

    def decode(self, x: Tensor, slots: Sequence[int], positions: Sequence[int]) -> Tensor:
        """Run one row of each of ``slots``, [rows, hidden], at ``positions``."""


class PlainTalkerLayers:
    """``TalkerLayers`` in plain torch."""

    def __init__(self, model: TalkerModel, slots: int, context: int) -> None:
        self._model = model
        self._cache = SlotCache(model.architecture.transformer, slots, context, model.device, model.dtype)

    def prefill(self, x: Tensor, slot: int, start: int) -> Tensor:
        """Run rows of one slot."""
        return self._model(x, slice(start, start + len(x)), self._cache.prefill(slot, start, len(x)))

    def decode(self, x: Tensor, slots: Sequence[int], positions: Sequence[int]) -> Tensor:
        """Run one row of each of ``slots``."""
        where = slice(positions[0], positions[0] + 1) if len(x) == 1 else torch.tensor(positions)
        return self._model(x, where, self._cache.decode(slots, positions))


class CompiledTalkerLayers:
    """``TalkerLayers`` in compiled kernels."""

    def __init__(self, layers: CompiledLayers) -> None:
        self._layers = layers

    def prefill(self, x: Tensor, slot: int, start: int) -> Tensor:
        """Run rows of one slot."""
        return self._layers(x, np.full(len(x), slot), np.arange(start, start + len(x)), threads=self._layers.team.size)

    def decode(self, x: Tensor, slots: Sequence[int], positions: Sequence[int]) -> Tensor:
        """Run one row of each of ``slots``."""
        return self._layers(x, np.array(slots, np.int64), np.array(positions, np.int64))


class CompiledFrameLayers:
    """``engine.models.code_predictor.FrameLayers`` in compiled kernels. The slot of a row is its number.

    layers: with the heads of codebooks 1 and up.
    """

    def __init__(self, layers: CompiledLayers) -> None:
        self._layers = layers

    def pair(self, x: Tensor) -> Tensor:
        """Run positions 0 and 1 of each row."""
        rows = len(x) // 2
        return self._layers.logits(x, np.repeat(np.arange(rows), 2), np.tile(np.arange(2), rows), 0, every=2)

    def single(self, x: Tensor, position: int) -> Tensor:
        """Run one further position of each row."""
        return self._layers.logits(x, np.arange(len(x)), np.full(len(x), position), position - 1)
