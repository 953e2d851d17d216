"""KV cache of the native talker, with one slot per utterance."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.checkpoint.architecture import Transformer
from engine.models.qwen3 import Attention, attend, causal_mask


class SlotCache:
    """Keys and values, [layers][slots, kv_heads, context, head_dim].

    On a CPU the OS commits memory as positions fill, so a long context costs no memory until it is used. Each row
    attends to its own slot in a separate call, so its result does not depend on the other rows of the batch.
    """

    def __init__(self, shape: Transformer, slots: int, context: int, device: torch.device, dtype: torch.dtype) -> None:
        size = (slots, shape.kv_heads, context, shape.head_dim)
        self._keys = [torch.empty(size, device=device, dtype=dtype) for _ in range(shape.layers)]
        self._values = [torch.empty(size, device=device, dtype=dtype) for _ in range(shape.layers)]
        self._kv_heads, self._groups = shape.kv_heads, shape.heads // shape.kv_heads

    def prefill(self, slot: int, start: int, count: int) -> Attention:
        """Return the attention function for ``count`` prompt rows of one slot, at positions from ``start`` on."""
        stop = start + count
        first = self._keys[0]
        mask = causal_mask(count, start, first.device, first.dtype).repeat(self._groups, 1)

        def attention(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            keys, values = self._keys[layer][slot], self._values[layer][slot]
            keys[:, start:stop] = key.transpose(0, 1)
            values[:, start:stop] = value.transpose(0, 1)
            grouped = query.unflatten(1, (self._kv_heads, self._groups)).permute(1, 2, 0, 3).flatten(1, 2)
            attended = attend(grouped, keys[:, :stop], values[:, :stop], mask)
            return attended.unflatten(1, (self._groups, count)).permute(2, 0, 1, 3).flatten(1)

        return attention

    def decode(self, slots: Sequence[int], positions: Sequence[int]) -> Attention:
        """Return the attention function for one new row of each of ``slots``, at ``positions``."""
        places = list(zip(slots, positions, strict=True))

        def attention(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            keys, values = self._keys[layer], self._values[layer]
            grouped = query.unflatten(1, (self._kv_heads, self._groups))
            attended = []
            for row, (slot, position) in enumerate(places):
                own_keys, own_values = keys[slot], values[slot]
                own_keys[:, position] = key[row]
                own_values[:, position] = value[row]
                stop = position + 1
                attended.append(attend(grouped[row], own_keys[:, :stop], own_values[:, :stop]).flatten())
            return torch.stack(attended)

        return attention
