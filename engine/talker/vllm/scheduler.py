"""Selects the rows of each step, and allocates their cache blocks. All state is in arrays. Does not import vLLM."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.talker.vllm.block_pool import BlockPool

_NO_LIMIT = np.iinfo(np.int64).max
_AHEAD = 8
"""Blocks allocated ahead of need, so that few utterances of a step need a new one."""


class CacheSize(NamedTuple):
    """Size of the KV cache. blocks: number of blocks, block 0 included, which is never used.

    block_size: positions per block. context: maximum number of positions of one utterance.
    """

    blocks: int
    block_size: int
    context: int


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """The utterances of one step and their rows: first the utterances that decode, then those in prefill.

    All arrays except ``bounds`` are [n]. slots: int64. starts: position of an utterance's first row. counts: its number
    of rows. bounds: [n + 1], the first input row of each utterance, then the total of rows. prefill: bool, whether the
    rows are of a prompt. samples: bool, whether a code is sampled from the last row. last: bool, whether that code is
    the last one that the utterance may sample. generations: see ``Scheduler.live``. new_blocks: slots whose row of
    ``Scheduler.block_table`` has changed since the previous batch.
    """

    slots: NDArray[np.int64]
    starts: NDArray[np.int64]
    counts: NDArray[np.int64]
    bounds: NDArray[np.int64]
    prefill: NDArray[np.bool_]
    samples: NDArray[np.bool_]
    last: NDArray[np.bool_]
    generations: NDArray[np.int64]
    new_blocks: NDArray[np.int64]


class Scheduler:
    """Slots, positions and cache blocks of all utterances. Not thread-safe.

    No utterance is ever preempted, so an utterance that has begun must be able to get all blocks that it may need:

    - The oldest one can always get the blocks of a whole context. Others get blocks while enough remain for that, and
      otherwise wait until an utterance ends.
    - While the oldest one waits for text or for its client, one other may borrow: it then has the same right for its
      own maximum length, until it ends. The oldest one gets what remains.

    A shared block counts for each utterance.
    """

    def __init__(self, slots: int, max_rows: int, cache: CacheSize) -> None:
        """max_rows: maximum number of rows of a step, more than ``slots``."""
        self._max_rows, self.block_size = max_rows, cache.block_size
        self._context_blocks = math.ceil((cache.context + 1) / cache.block_size)
        self._pool = BlockPool(cache.blocks - 1)
        self._unassigned = cache.blocks - 1
        self.block_table = np.zeros((slots + 1, self._context_blocks), np.int64)
        """Block ids of each slot [slots + 1, blocks of a context]. The last row is for padding, and all zero."""
        self._free = list(reversed(range(slots)))
        self._slot_of: dict[int, int] = {}
        self._stream_of = [-1] * slots
        self._blocks: list[list[int]] = [[] for _ in range(slots)]
        self._keys: list[list[bytes]] = [[] for _ in range(slots)]
        self._prefilling: dict[int, None] = {}
        self._borrower: int | None = None
        self._oldest_waits = False
        self._new_blocks: set[int] = set()
        self._computed = np.zeros(slots, np.int64)
        self._prompt = np.full(slots, _NO_LIMIT)
        self._limit = np.zeros(slots, np.int64)
        self._reserved = np.zeros(slots, np.int64)
        self._text = np.zeros(slots, np.int64)
        self._generation = np.zeros(slots, np.int64)

    @property
    def free_slots(self) -> int:
        """Number of utterances that can be admitted now."""
        return len(self._free)

    @property
    def utterances(self) -> int:
        """Number of admitted utterances."""
        return len(self._slot_of)

    @property
    def positions(self) -> NDArray[np.int64]:
        """Number of computed positions of each admitted utterance, those of the steps in flight included."""
        return self._computed[list(self._slot_of.values())]

    def slot(self, stream: int) -> int | None:
        """Return the slot of a stream, None if it is not admitted."""
        return self._slot_of.get(stream)

    def streams(self, slots: NDArray[np.int64]) -> list[int]:
        """Return the streams of ``slots``."""
        return [self._stream_of[slot] for slot in slots.tolist()]

    def admit(self, stream: int, prompt_rows: int, max_codes: int, keys: list[bytes]) -> int:
        """Assign a slot to a stream and return it.

        max_codes: maximum number of sampled codes of codebook 0; prompt and frames together must fit into the context.
        keys: keys of the prompt's blocks in the prefix cache, empty to use none.
        """
        slot = self._free.pop()
        self._slot_of[stream], self._stream_of[slot] = slot, stream
        self._keys[slot] = keys
        self._prefilling[slot] = None
        self._computed[slot] = self._reserved[slot] = 0
        self._prompt[slot] = prompt_rows
        self._limit[slot] = prompt_rows + max_codes - 1
        self._text[slot] = _NO_LIMIT
        return slot

    def set_text(self, slot: int, frames: int | None) -> None:
        """Pause the utterance after its first ``frames`` frames until more text is known. None: never again."""
        self._text[slot] = _NO_LIMIT if frames is None else frames

    def release(self, stream: int) -> None:
        """Free the slot and the blocks of a stream. Steps in flight may still use them; later steps run after those."""
        slot = self._slot_of.pop(stream)
        self._free.append(slot)
        self._prefilling.pop(slot, None)
        self._pool.release(self._blocks[slot])
        self._unassigned += len(self._blocks[slot])
        self._blocks[slot] = []
        self._prompt[slot] = _NO_LIMIT
        self._generation[slot] += 1
        if self._borrower in (slot, self._oldest()):
            self._borrower = None

    def live(self, slots: NDArray[np.int64], generations: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which slots still belong to the utterances that they had in a batch."""
        live: NDArray[np.bool_] = self._generation[slots] == generations
        return live

    def forget_prefixes(self) -> None:
        """Forget the cached prompts, because a step has failed and their blocks may not have been computed."""
        self._pool.forget()

    def runnable(self, paused: Collection[int]) -> bool:
        """Return whether ``schedule`` would return a batch while the streams ``paused`` are paused."""
        ready = self._can_decode(paused)
        if (self._computed[ready] < self._reserved[ready]).any():
            return True
        waiting = [(slot, int(self._computed[slot]) + 1) for slot in ready.tolist()]
        waiting += [(slot, int(self._prompt[slot])) for slot in itertools.islice(self._prefilling, 1)]
        return any(self._may_take(slot, self._missing_blocks(slot, positions)) for slot, positions in waiting)

    def schedule(self, paused: Collection[int]) -> Batch | None:
        """Return the next batch, None if there is nothing to run. Prefill is never paused."""
        decoding = self._decoding(paused)
        prefilling = self._schedule_prefill(self._max_rows - len(decoding))
        if not len(decoding) and not prefilling:
            return None
        slots = np.concatenate((decoding, np.array([slot for slot, _ in prefilling], np.int64)))
        counts = np.ones(len(slots), np.int64)
        counts[len(decoding) :] = [count for _, count in prefilling]
        starts = self._computed[slots]
        ends = starts + counts
        self._computed[slots] = ends
        self._store_prompts(slots[len(decoding) :].tolist(), starts[len(decoding) :].tolist())
        new_blocks = np.array(sorted(self._new_blocks), np.int64)
        self._new_blocks.clear()
        return Batch(
            slots=slots,
            starts=starts,
            counts=counts,
            bounds=np.concatenate(([0], np.cumsum(counts))),
            prefill=np.arange(len(slots)) >= len(decoding),
            samples=ends >= self._prompt[slots],
            last=ends >= self._limit[slots],
            generations=self._generation[slots],
            new_blocks=new_blocks,
        )

    def _can_decode(self, paused: Collection[int]) -> NDArray[np.int64]:
        """Return the slots that have been prefilled, have text for the next frame and are not paused.

        Also notes whether the oldest utterance waits.
        """
        frames = self._computed - self._prompt
        ready = (frames >= 0) & (frames < self._text) & (self._computed < self._limit)
        for stream in paused:
            slot = self._slot_of.get(stream)
            if slot is not None:
                ready[slot] = False
        oldest = self._oldest()
        self._oldest_waits = oldest is not None and oldest not in self._prefilling and not ready[oldest]
        return np.flatnonzero(ready)

    def _decoding(self, paused: Collection[int]) -> NDArray[np.int64]:
        """Return the slots that decode in the next step, and allocate their blocks."""
        ready = self._can_decode(paused)
        full = ready[self._computed[ready] >= self._reserved[ready]]
        waiting = [slot for slot in full.tolist() if not self._reserve(slot, int(self._computed[slot]) + 1)]
        return np.setdiff1d(ready, waiting, assume_unique=True) if waiting else ready

    def _schedule_prefill(self, rows: int) -> list[tuple[int, int]]:
        """Return (slot, number of rows) of the prompts that are computed, at most ``rows`` rows; the oldest first.

        A prompt starts when there are blocks for all of it. Later prompts wait behind it, even if they are shorter.
        """
        scheduled: list[tuple[int, int]] = []
        for slot in list(self._prefilling):
            length = int(self._prompt[slot])
            if not rows or not self._claim(slot, self._missing_blocks(slot, length)):
                break
            if not self._blocks[slot]:
                self._add_blocks(slot, self._pool.find(self._keys[slot]))
                self._computed[slot] = self._reserved[slot]
            count = min(length - int(self._computed[slot]), rows)
            self._reserve(slot, int(self._computed[slot]) + count)
            if self._computed[slot] + count == length:
                del self._prefilling[slot]
            scheduled.append((slot, count))
            rows -= count
        return scheduled

    def _store_prompts(self, slots: list[int], starts: list[int]) -> None:
        """Store the blocks of prompts that a batch completes, for the utterances of later batches."""
        for slot, start in zip(slots, starts, strict=True):
            blocks, keys = self._blocks[slot], self._keys[slot]
            complete = min(int(self._computed[slot]) // self.block_size, len(keys))
            for index in range(start // self.block_size, complete):
                self._pool.store(blocks[index], keys[index])

    def _reserve(self, slot: int, positions: int) -> bool:
        """Allocate blocks for an utterance's first ``positions`` positions, and some ahead if possible.

        Returns whether there are enough.
        """
        missing = self._missing_blocks(slot, positions)
        ahead = min(missing + _AHEAD, self._missing_to_end(slot))
        count = ahead if slot == self._borrower or self._is_free(slot, ahead) else missing
        if not self._claim(slot, count):
            return False
        if count > 0:
            self._add_blocks(slot, self._pool.allocate(count))
        return True

    def _missing_blocks(self, slot: int, positions: int) -> int:
        """Return how many blocks are missing for the first ``positions`` positions; negative if there are more."""
        return math.ceil(positions / self.block_size) - len(self._blocks[slot])

    def _missing_to_end(self, slot: int) -> int:
        return self._missing_blocks(slot, int(self._limit[slot]))

    def _oldest(self) -> int | None:
        return next(iter(self._slot_of.values()), None)

    def _claim(self, slot: int, count: int) -> bool:
        """Return whether an utterance gets ``count`` more blocks. It becomes the borrower if it needs to be."""
        if not self._may_take(slot, count):
            return False
        if count > 0 and slot != self._borrower and not self._is_free(slot, count):
            self._borrower = slot
        return True

    def _may_take(self, slot: int, count: int) -> bool:
        """Return whether an utterance may have ``count`` more blocks."""
        return count <= 0 or slot == self._borrower or self._is_free(slot, count) or self._may_borrow(slot)

    def _is_free(self, slot: int, count: int) -> bool:
        """Return whether ``count`` blocks are left beside those of the borrower and, for others, of the oldest one."""
        left = self._unassigned - count
        if self._borrower is not None:
            left -= self._missing_to_end(self._borrower)
        oldest = self._oldest()
        if oldest is None or slot == oldest:
            return left >= 0
        return left + len(self._blocks[oldest]) >= self._context_blocks

    def _may_borrow(self, slot: int) -> bool:
        return self._oldest_waits and self._borrower is None and self._unassigned >= self._missing_to_end(slot)

    def _add_blocks(self, slot: int, blocks: list[int]) -> None:
        held = len(self._blocks[slot])
        self._blocks[slot] += blocks
        self.block_table[slot, held : held + len(blocks)] = blocks
        self._reserved[slot] = len(self._blocks[slot]) * self.block_size
        self._unassigned -= len(blocks)
        self._new_blocks.add(slot)
