"""Sorts recordings of unknown people into one folder per speaker, for training (scripts/train_pocket/README.md).

``.venv-judge/bin/python -m scripts.judge.speaker_groups RECORDINGS --out FOLDER``. Speakers are groups of recordings
with an ECAPA similarity of at least 0.5 on average. ``--apart-from`` leaves out speakers who sound like those in
another folder, because the people with whom clones are measured must not be in the training data.
"""

from __future__ import annotations

import argparse
import shutil
from collections import defaultdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage

from scripts.judge.judging import judge_files
from scripts.judge.recordings import audio_files

_SAME = 0.5
"""Minimum mean similarity of recordings of one speaker."""
_MAX_SIMILARITY = 0.45
"""Of a recording to one of the other folder."""


def speaker_groups(vectors: NDArray[np.float32]) -> list[list[int]]:
    """Return the indices of each speaker's recordings. vectors: unit vectors [n, width], at least two."""
    labels = fcluster(linkage(vectors, "average", metric="cosine"), 1 - _SAME, criterion="distance")
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for index, label in enumerate(labels.tolist()):
        groups[label].append(index)
    return list(groups.values())


def _vectors(folder: Path) -> tuple[list[Path], NDArray[np.float32]]:
    files = audio_files(folder)
    if len(files) < 2:
        raise ValueError(f"{folder} has fewer than two recordings")
    judgments = judge_files(files, ["speaker"])
    return files, np.array([judgments[file]["speaker"] for file in files], np.float32)


def main() -> None:
    """Copy the recordings. Raises FileExistsError if a speaker's folder exists."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recordings", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder for a subfolder per speaker")
    parser.add_argument("--apart-from", type=Path, help="folder with recordings of people to leave out")
    args = parser.parse_args()
    files, vectors = _vectors(args.recordings)
    groups = speaker_groups(vectors)
    if args.apart_from:
        _, others = _vectors(args.apart_from)
        similarity = (vectors @ others.T).max(1)
        groups = [group for group in groups if similarity[group].max() <= _MAX_SIMILARITY]
        highest = max((similarity[group].max() for group in groups), default=0)
        print(f"highest similarity to {args.apart_from}: {highest:.2f}")
    for number, group in enumerate(groups):
        folder = args.out / f"{args.recordings.name}-{number:03}"
        folder.mkdir(parents=True)
        for index in group:
            shutil.copy(files[index], folder / f"{index:05}{files[index].suffix}")
    print(f"{sum(map(len, groups))} of {len(files)} recordings, {len(groups)} speakers")


if __name__ == "__main__":
    main()
