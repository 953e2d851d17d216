"""Allocates the blocks of the KV cache, and finds blocks that hold the beginning of a prompt. Does not import vLLM."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence


class BlockPool:
    """Blocks 1 to ``count``. Block 0 is never allocated: the padding of block tables refers to it.

    A block that is stored under a key stays findable after its release, until it is allocated again. Blocks without a
    key are allocated first, then the least recently released ones. Not thread-safe.
    """

    def __init__(self, count: int) -> None:
        self._free = OrderedDict.fromkeys(range(1, count + 1))
        self._references = [0] * (count + 1)
        self._key_of: dict[int, bytes] = {}
        self._block_of: dict[bytes, int] = {}

    @property
    def free(self) -> int:
        """Number of blocks that can be allocated."""
        return len(self._free)

    def allocate(self, count: int) -> list[int]:
        """Return ``count`` blocks, each with one reference. Raises KeyError when fewer are free."""
        blocks = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in blocks:
            self._references[block] = 1
            key = self._key_of.pop(block, None)
            if key is not None:
                del self._block_of[key]
        return blocks

    def find(self, keys: Iterable[bytes]) -> list[int]:
        """Return the blocks of the longest known prefix of ``keys``, each with one more reference."""
        found: list[int] = []
        for key in keys:
            block = self._block_of.get(key)
            if block is None:
                break
            if not self._references[block]:
                del self._free[block]
            self._references[block] += 1
            found.append(block)
        return found

    def store(self, block: int, key: bytes) -> None:
        """Make an allocated block findable. No-op if another block has the same key."""
        if key not in self._block_of:
            self._block_of[key] = block
            self._key_of[block] = key

    def release(self, blocks: Sequence[int]) -> None:
        """Return one reference to each block. The end of a prefix is allocated again before its beginning."""
        for block in reversed(blocks):
            self._references[block] -= 1
            if not self._references[block]:
                self._free[block] = None
                if block not in self._key_of:
                    self._free.move_to_end(block, last=False)

    def forget(self) -> None:
        """Forget all keys: what the blocks hold is unknown."""
        self._key_of.clear()
        self._block_of.clear()
