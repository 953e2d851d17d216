"""speakers.json: speakers as mixtures of the teacher's voices."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from scripts.train_pocket.utterances import Accent

Kind = Literal["named", "mixed", "unseen"]


@dataclass(frozen=True, slots=True)
class Speaker:
    """A speaker. mix: teacher voice -> weight; the sum is 1. kind: "unseen" is not used in training."""

    mix: dict[str, float]
    accent: Accent
    kind: Kind


def write_speakers(file: Path, speakers: dict[str, Speaker]) -> None:
    """Write the speakers by name."""
    table = {name: asdict(speaker) for name, speaker in speakers.items()}
    file.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


def read_speakers(file: Path) -> dict[str, Speaker]:
    """Read the speakers by name."""
    return {name: Speaker(**entry) for name, entry in json.loads(file.read_text(encoding="utf-8")).items()}


class VoiceBank:
    """The teacher's voices: one style vector [256] for each number of symbols from 1 to 510."""

    def __init__(self, folder: Path) -> None:
        """Read voices_*.npz of ``folder``: arrays [510, 256] or [510, 1, 256] by voice."""
        self._packs: dict[str, npt.NDArray[np.float32]] = {}
        for file in sorted(folder.glob("voices_*.npz")):
            with np.load(file) as packs:
                self._packs.update(
                    {name: packs[name].reshape(len(packs[name]), -1).astype(np.float32) for name in packs.files}
                )

    def style(self, mix: dict[str, float], symbols: int) -> npt.NDArray[np.float32]:
        """Return the weighted sum of the vectors for ``symbols`` symbols. Raises KeyError for an unknown voice."""
        rows = [weight * self._packs[voice][min(symbols, len(self._packs[voice])) - 1] for voice, weight in mix.items()]
        mixed: npt.NDArray[np.float32] = np.stack(rows).sum(axis=0)
        return mixed
