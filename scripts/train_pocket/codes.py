"""Codec codes on disk, with 9 bits per code, in files of limited size.

``codes-NNN.npz`` has ids int64 [n]; frames int32 [n], the length of each utterance; low uint8 [total, 16]; high uint8
[total, 2], rows of 16 bits whose bit b is bit 8 of code b.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import numpy.typing as npt

CODEBOOKS = 16
FILE_BYTES = 15_000_000
_LIMIT = 512
_FRAME_BYTES = CODEBOOKS + CODEBOOKS // 8
_UTTERANCE_BYTES = 8 + 4

Bytes = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class CodedUtterances:
    """The concatenated codes of many utterances.

    ids: int64 [n]. starts: int64 [n + 1], offsets into codes. codes: int16 [frames, 16].
    """

    ids: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    codes: Codes

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Codes:
        """Return the codes [frames, 16] of the utterance at ``index``, which is not its id."""
        return self.codes[self.starts[index] : self.starts[index + 1]]


def pack(codes: npt.NDArray[np.integer]) -> tuple[Bytes, Bytes]:
    """Pack codes [frames, 16] to low [frames, 16] and high [frames, 2]. Raises ValueError for codes above 511."""
    if codes.ndim != 2 or codes.shape[1] != CODEBOOKS:
        raise ValueError(f"codes must be [frames, {CODEBOOKS}], got {list(codes.shape)}")
    if codes.size and not 0 <= codes.min() <= codes.max() < _LIMIT:
        raise ValueError(f"codes must be from 0 to {_LIMIT - 1}, got {codes.min()} to {codes.max()}")
    return (codes & 0xFF).astype(np.uint8), np.packbits(codes >> 8, axis=1, bitorder="little")


def unpack(low: Bytes, high: Bytes) -> Codes:
    """Return the codes [frames, 16]. The inverse of ``pack``."""
    bits = np.unpackbits(high, axis=1, count=CODEBOOKS, bitorder="little")
    return low.astype(np.int16) | (bits.astype(np.int16) << 8)


def write(
    folder: Path,
    utterances: Iterable[tuple[int, npt.NDArray[np.integer]]],
    *,
    numbers: Iterator[int] | None = None,
    file_bytes: int = FILE_BYTES,
) -> list[Path]:
    """Write (id, codes [frames, 16]) pairs to files of up to ``file_bytes``, and return the files.

    numbers: of the files; 0, 1, 2... by default. Processes that write to the same folder use count(rank, processes).
    """
    folder.mkdir(parents=True, exist_ok=True)
    numbers = count() if numbers is None else numbers
    return [_write_file(folder, next(numbers), batch) for batch in _batches(utterances, file_bytes)]


def read(folder: Path) -> CodedUtterances:
    """Read all files of the folder in the order of their numbers. Raises FileNotFoundError if there are none."""
    files = sorted(folder.glob("codes-*.npz"))
    if not files:
        raise FileNotFoundError(f"{folder} has no codes-*.npz")
    parts = [_read_file(file) for file in files]
    frames = np.concatenate([part[1] for part in parts])
    starts = np.concatenate(([0], np.cumsum(frames, dtype=np.int64)))
    return CodedUtterances(
        np.concatenate([part[0] for part in parts]), starts, np.concatenate([part[2] for part in parts])
    )


def _batches(
    utterances: Iterable[tuple[int, npt.NDArray[np.integer]]], file_bytes: int
) -> Iterator[list[tuple[int, npt.NDArray[np.integer]]]]:
    batch: list[tuple[int, npt.NDArray[np.integer]]] = []
    size = 0
    for utterance, codes in utterances:
        added_bytes = len(codes) * _FRAME_BYTES + _UTTERANCE_BYTES
        if batch and size + added_bytes > file_bytes:
            yield batch
            batch, size = [], 0
        batch.append((utterance, codes))
        size += added_bytes
    if batch:
        yield batch


def _write_file(folder: Path, number: int, batch: list[tuple[int, npt.NDArray[np.integer]]]) -> Path:
    low, high = pack(np.concatenate([codes for _, codes in batch]))
    file = folder / f"codes-{number:03d}.npz"
    temporary = folder / f".codes-{number:03d}.npz"
    np.savez(
        temporary,
        ids=np.array([utterance for utterance, _ in batch], np.int64),
        frames=np.array([len(codes) for _, codes in batch], np.int32),
        low=low,
        high=high,
    )
    return temporary.replace(file)


def _read_file(file: Path) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], Codes]:
    with np.load(file) as arrays:
        return arrays["ids"], arrays["frames"], unpack(arrays["low"], arrays["high"])
