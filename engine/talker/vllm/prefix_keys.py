"""Keys of prompt blocks in the prefix cache: prompts share a block exactly where all rows up to its end are equal."""

from __future__ import annotations

import hashlib

import numpy as np

from engine.prompt.builder import Prompt


def prefix_keys(prompt: Prompt, block_size: int) -> list[bytes]:
    """Return a key for each complete block of prompt rows, except one that has the last row.

    The last row must be computed, because the first frame is sampled from it. A key is a hash of the voice and of all
    text and codec ids from the first row to the end of the block.
    """
    digest = hashlib.sha256()
    if prompt.embedding is not None:
        digest.update(f"voice {prompt.embedding_row} {prompt.codes_row} ".encode())
        digest.update(prompt.embedding.tobytes())
    if prompt.codes is not None:
        digest.update(prompt.codes.tobytes())
    rows = np.stack((prompt.text, prompt.codec), axis=1)
    keys = []
    for start in range(0, len(rows) - block_size, block_size):
        digest.update(rows[start : start + block_size].tobytes())
        keys.append(digest.digest())
    return keys
