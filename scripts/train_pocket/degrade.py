"""Degrades recordings as people's references are: python3 -m scripts.train_pocket.degrade --help.

Writes shards of a share of the utterances, with the same ids and lengths: rooms, microphones, noise, voices, music,
telephone bands, clipping and levels. The talker's training uses their codes as references in context, never as targets.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from scripts.train_pocket.audio_shards import Clip, ShardWriter
from scripts.train_pocket.speaker.augment import Augmenter
from scripts.train_pocket.speaker.shards import SAMPLE_RATE, Shard, shards

_BATCH_SAMPLES = 120 * SAMPLE_RATE
_SHARD_SAMPLES = 180 * SAMPLE_RATE

Item = tuple[int, Clip]
"""The id of an utterance, and its recording."""


def main(arguments: list[str] | None = None) -> None:
    """Degrade the recordings of one rank. arguments: the command line by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audio", type=Path, required=True, help="folder with shard-RRR-KKK.npz")
    parser.add_argument("--out", type=Path, required=True, help="folder for the degraded shards")
    parser.add_argument("--share", type=float, default=0.3, help="share of the utterances")
    parser.add_argument("--minutes", type=float, default=1e6, help="time limit")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--world", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    begin = time.monotonic()
    device = torch.device(options.device)
    augmenter = Augmenter(torch.Generator(device).manual_seed(options.rank))
    writer = ShardWriter(options.out, options.rank, _SHARD_SAMPLES)
    count, samples = 0, 0
    for number, shard in enumerate(shards(options.audio)):
        if number % options.world != options.rank:
            continue
        if time.monotonic() - begin > 60 * options.minutes:
            break
        for batch in _batches(_selected(shard, options.share)):
            for utterance, clip in _degrade(batch, augmenter, device):
                writer.add(utterance, clip)
                count += 1
                samples += len(clip.samples)
    writer.flush()
    print(
        f"[{time.monotonic() - begin:7.1f} s] degraded {count} utterances,"
        f" {samples / SAMPLE_RATE / 3600:.2f} h: {options.out}",
        flush=True,
    )


def is_selected(utterance: int, share: float) -> bool:
    """Return whether an utterance is in the share. It is a function of the id, spread evenly over any plan."""
    return utterance * 2654435761 % 2**32 < share * 2**32


def _selected(shard: Shard, share: float) -> list[Item]:
    chosen = [index for index, number in enumerate(shard.ids.tolist()) if is_selected(number, share)]
    if not chosen:
        return []
    with np.load(shard.file) as arrays:
        samples, labels = arrays["samples"], arrays["labels"]
    items = []
    for index in chosen:
        first, end = int(shard.starts[index]), int(shard.starts[index + 1])
        clip = Clip(samples[first:end], labels[first // 1920 : end // 1920])
        items.append((int(shard.ids[index]), clip))
    return items


def _batches(items: list[Item]) -> Iterator[list[Item]]:
    """Yield batches of similar lengths."""
    batch: list[Item] = []
    for item in sorted(items, key=lambda item: len(item[1].samples)):
        if batch and (len(batch) + 1) * len(item[1].samples) > _BATCH_SAMPLES:
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def _degrade(batch: list[Item], augmenter: Augmenter, device: torch.device) -> Iterator[Item]:
    longest = max(len(clip.samples) for _, clip in batch)
    padded = np.stack([np.pad(clip.samples, (0, longest - len(clip.samples))) for _, clip in batch])
    changed = augmenter(torch.from_numpy(padded).to(device).float() / 32768)
    rows: npt.NDArray[np.int16] = (changed * 32767).round().to(torch.int16).cpu().numpy()
    for row, (number, clip) in zip(rows, batch, strict=True):
        yield number, Clip(row[: len(clip.samples)].copy(), clip.labels)


if __name__ == "__main__":
    main()
