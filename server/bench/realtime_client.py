"""A simulated real-time client: plays audio as it arrives, and has an underrun when audio arrives late."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from server.bench.trace import Piece

BYTES_PER_SAMPLE = 2


@dataclass(frozen=True, slots=True)
class Playback:
    """The result of a simulated playback: number of underruns, and their total length in seconds."""

    underruns: int
    underrun_seconds: float


class Player:
    """Simulates a player that starts ``wait`` seconds after the first piece arrives, and pauses during underruns.

    With a wait of 0, the total length of the underruns is also the smallest wait that would have avoided them all.

    Args:
        rate: sample rate in Hz.
        wait: seconds of buffering before playback starts.
    """

    def __init__(self, rate: int, wait: float = 0.0) -> None:
        self._bytes_per_second = rate * BYTES_PER_SAMPLE
        self._wait = wait
        self._underruns, self._underrun_seconds = 0, 0.0
        self._end: float | None = None

    def add(self, arrived: float, size: int) -> float:
        """Add a piece of ``size`` bytes that arrived at time ``arrived``. Return when its first sample is played."""
        if self._end is None:
            self._end = arrived + self._wait
        elif arrived > self._end:
            self._underruns += 1
            self._underrun_seconds += arrived - self._end
            self._end = arrived
        start = self._end
        self._end += size / self._bytes_per_second
        return start

    @property
    def playback(self) -> Playback:
        """The result so far."""
        return Playback(self._underruns, self._underrun_seconds)


def play(pieces: Iterable[Piece], rate: int, wait: float = 0.0) -> Playback:
    """Simulate playback of all pieces and return the result."""
    player = Player(rate, wait)
    for arrived, size in pieces:
        player.add(arrived, size)
    return player.playback


def played_at(pieces: Iterable[Piece], rate: int, sample: int) -> tuple[float, float]:
    """Return when the sample with index ``sample`` arrived, and when a player without a buffer played it.

    Raises ValueError if the pieces do not contain it.
    """
    player, offset = Player(rate), sample * BYTES_PER_SAMPLE
    received = 0
    for arrived, size in pieces:
        start = player.add(arrived, size)
        if offset + BYTES_PER_SAMPLE <= received + size:
            return arrived, start + (offset - received) / (rate * BYTES_PER_SAMPLE)
        received += size
    raise ValueError(f"the pieces do not contain sample {sample}")
