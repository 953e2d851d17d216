"""Keys of prompt blocks in the prefix cache.

Prompts share a block if they have the same voice or reference, and equal rows up to the end of the block.
"""

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
