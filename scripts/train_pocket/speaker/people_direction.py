"""Removes the direction from x-vectors in which recordings of people differ from the voices of the training.

``python -m scripts.train_pocket.speaker.people_direction --checkpoint FOLDER RECORDINGS...`` changes the last layer of
the checkpoint's speaker encoder, and nothing else. X-vectors of the training have a mean of zero, those of people do
not, and the talker has never seen vectors so far from it. Each folder of recordings has the same weight. The people
with whom clones are measured must not be among them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from engine.checkpoint.folder import open_checkpoint
from engine.cloning.encoder import ReferenceEncoder
from engine.cloning.resampling import resample
from engine.protocol.messages import EncodeRequest
from engine.protocol.request import SAMPLE_RATE
from scripts.judge.recordings import audio_files
from scripts.judge.sound import read
from scripts.train_pocket.assemble import LAST_SPEAKER_LAYER, save_tensors, write_sums

_MIN_S, _MAX_S = 2.0, 10.0
"""Shorter recordings are left out, and of longer ones only the beginning is used."""


def x_vectors(encoder: ReferenceEncoder, folder: Path) -> NDArray[np.float32]:
    """Return the x-vectors [n, width] of all recordings in a folder and its subfolders. Raises ValueError without any.

    Silence at the ends is not trimmed.
    """
    vectors = []
    for file in audio_files(folder):
        samples, rate = read(file)
        if len(samples) >= _MIN_S * rate:
            samples = resample(samples[: round(_MAX_S * rate)], rate, SAMPLE_RATE)
            vectors.append(encoder.encode(EncodeRequest(samples, codes=False)).embedding)
    if not vectors:
        raise ValueError(f"{folder} has no recording of at least {_MIN_S:g} s")
    return np.stack(vectors)


def people_direction(groups: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return the mean of the directions [width] of each group's mean x-vector, as a unit vector."""
    means = [group.mean(0) for group in groups]
    total = np.sum([mean / np.linalg.norm(mean) for mean in means], axis=0)
    direction: NDArray[np.float32] = (total / np.linalg.norm(total)).astype(np.float32)
    return direction


def without_direction(tensor: Tensor, direction: Tensor) -> Tensor:
    """Return the last layer's weight [width, channels, 1] or bias [width] whose output has nothing of ``direction``."""
    rows = tensor.float().flatten(1) if tensor.dim() > 1 else tensor.float()[:, None]
    return (rows - direction[:, None] @ (direction[None] @ rows)).reshape(tensor.shape)


def main() -> None:
    """Change the checkpoint, and print how far the recordings were from zero along the direction."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", type=Path, nargs="+", help="folders with recordings of people")
    parser.add_argument("--checkpoint", type=Path, required=True, help="the folder to change")
    args = parser.parse_args()
    encoder = ReferenceEncoder(open_checkpoint(str(args.checkpoint)), torch.device("cpu"))
    groups = [x_vectors(encoder, folder) for folder in args.recordings]
    direction = people_direction(groups)
    for folder, group in zip(args.recordings, groups, strict=True):
        along = group @ direction
        print(f"{folder}: {len(group)} recordings, {along.mean():.2f} +- {along.std():.2f} along the direction")
    file = args.checkpoint / "model.safetensors"
    tensors = load_file(file)
    for name in LAST_SPEAKER_LAYER:
        tensors[name] = without_direction(tensors[name], torch.from_numpy(direction))
    save_tensors(file, tensors)
    write_sums(args.checkpoint)


if __name__ == "__main__":
    main()
