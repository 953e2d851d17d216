"""speakers.json: speakers as mixtures of the teacher's voices, with changes of the vocal tract, pitch and timbre."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from scripts.train_pocket.utterances import Accent

Kind = Literal["named", "mixed", "varied", "unseen"]
_PROSODY = 128
"""Index at which the second half of a style vector starts, which is for the prosody predictor."""


@dataclass(frozen=True, slots=True)
class Speaker:
    """A speaker. kind: "unseen" is not used in training.

    mix: teacher voice -> weight; the sum is 1. prosody: the same for rhythm and intonation; None for ``mix``.
    expansion: factor of the timbre's distance from the mean of all voices. tract: factor of all formants.
    pitch: factor of the fundamental frequency. pitch_range: factor of its deviation, in octaves, from its mean.
    equalizer: gains in dB at frequencies that are evenly spaced in octaves (``voice_change.BANDS``); empty for none.
    """

    mix: dict[str, float]
    accent: Accent
    kind: Kind
    prosody: dict[str, float] | None = None
    expansion: float = 1.0
    tract: float = 1.0
    pitch: float = 1.0
    pitch_range: float = 1.0
    equalizer: tuple[float, ...] = ()


def write_speakers(file: Path, speakers: dict[str, Speaker]) -> None:
    """Write the speakers by name."""
    table = {name: asdict(speaker) for name, speaker in speakers.items()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in table.items())
    file.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def read_speakers(file: Path) -> dict[str, Speaker]:
    """Read the speakers by name."""
    table = json.loads(file.read_text(encoding="utf-8"))
    return {
        name: Speaker(**(entry | {"equalizer": tuple(entry.get("equalizer", ()))})) for name, entry in table.items()
    }


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
        self._mean: npt.NDArray[np.float32] = np.mean(
            np.stack([pack.mean(0) for pack in self._packs.values()]), axis=0, dtype=np.float32
        )

    def style(self, speaker: Speaker, symbols: int) -> npt.NDArray[np.float32]:
        """Return the speaker's vector for ``symbols`` symbols. Raises KeyError for an unknown voice."""
        style = self._mixed(speaker.mix, symbols)
        style = self._mean + np.float32(speaker.expansion) * (style - self._mean)
        rhythm = self._mixed(speaker.prosody or speaker.mix, symbols)
        return np.concatenate((style[:_PROSODY], rhythm[_PROSODY:]))

    def _mixed(self, mix: dict[str, float], symbols: int) -> npt.NDArray[np.float32]:
        """Return the weighted sum of the vectors."""
        rows = [weight * self._packs[voice][min(symbols, len(self._packs[voice])) - 1] for voice, weight in mix.items()]
        mixed: npt.NDArray[np.float32] = np.stack(rows).sum(axis=0)
        return mixed
