"""Encodes all utterances of the teacher to codec frames, which the talker learns.

python3 -m scripts.train_pocket.codec.encode --audio DIR --codec codec.safetensors --out DIR --rank 0 --world 8
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from scripts.train_pocket import codes, config, folder
from scripts.train_pocket.codec.audio import shards
from scripts.train_pocket.codec.model import Codec

_SAMPLES = 1920
_BATCH_FRAMES = 6_000
"""Maximum frames of a batch with padding: 8 minutes of audio."""
_GROUP = 40
"""Shards that are read at once. Their utterances are batched by length."""

ShardUtterance = tuple[int, NDArray[np.int16]]


def utterances(files: Sequence[Path]) -> Iterator[ShardUtterance]:
    """Yield the id and the samples of each utterance."""
    for file in files:
        with np.load(file) as shard:
            ids, samples, starts = shard["ids"], shard["samples"], shard["starts"]
        for index, number in enumerate(ids):
            yield int(number), samples[starts[index] : starts[index + 1]]


def batches(clips: list[ShardUtterance]) -> Iterator[list[ShardUtterance]]:
    """Yield batches of utterances of similar length."""
    batch: list[ShardUtterance] = []
    for each in sorted(clips, key=lambda item: len(item[1])):
        if batch and (len(batch) + 1) * len(each[1]) > _BATCH_FRAMES * _SAMPLES:
            yield batch
            batch = []
        batch.append(each)
    if batch:
        yield batch


def groups(files: Sequence[Path]) -> Iterator[list[ShardUtterance]]:
    """Yield the utterances of some shards at a time. The next ones are read in a thread."""

    def read(first: int) -> list[ShardUtterance]:
        return list(utterances(files[first : first + _GROUP]))

    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(read, 0)
        for first in range(0, len(files), _GROUP):
            clips = coming.result()
            coming = reader.submit(read, first + _GROUP)
            yield clips


@torch.inference_mode()
def encode(codec: Codec, batch: list[ShardUtterance], device: torch.device) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield ids and codes [frames, 16]. The encoder is causal, so padding on the right has no effect."""
    longest = max(len(samples) for _, samples in batch)
    padded = torch.zeros(len(batch), longest, dtype=torch.int16)
    for row, (_, samples) in enumerate(batch):
        padded[row, : len(samples)] = torch.from_numpy(samples)
    codes_of_batch: Tensor = codec(padded.to(device).float() / 32768).codes
    codes_of_batch = codes_of_batch.cpu()
    for row, (number, samples) in enumerate(batch):
        yield number, codes_of_batch[row, : len(samples) // _SAMPLES].numpy()


def main() -> None:
    """Encode this process's share of the shards, in float32."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audio", type=Path, required=True)
    parser.add_argument("--codec", type=Path, required=True, help="codec.safetensors")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--world", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    begin = time.monotonic()
    device = torch.device(options.device)
    codec = Codec(folder.codec_architecture(config.load()))
    codec.load_published(load_file(options.codec))
    codec.to(device).eval()
    counted = samples = 0

    def encoded() -> Iterator[tuple[int, NDArray[np.int64]]]:
        nonlocal counted, samples
        for clips in groups(shards(options.audio)[options.rank :: options.world]):
            counted += len(clips)
            samples += sum(len(clip) for _, clip in clips)
            for batch in batches(clips):
                yield from encode(codec, batch, device)

    files = codes.write(options.out, encoded(), numbers=count(options.rank, options.world))
    hours = samples / 24000 / 3600
    print(f"{time.monotonic() - begin:.1f} s: {counted} utterances, {hours:.2f} h, in {len(files)} files", flush=True)


if __name__ == "__main__":
    main()
