"""A simulated real-time client: plays audio as it arrives, and has an underrun when audio arrives late."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from server.bench.trace import Piece

BYTES_A_SAMPLE = 2


@dataclass(frozen=True, slots=True)
class Listening:
    """The result of playback: number of underruns, and their total length in seconds (``dry``)."""

    underruns: int
    dry: float


class Player:
    """Simulates a player that starts ``wait`` seconds after the first piece arrives, and pauses during underruns.

    With a wait of 0, ``dry`` is also the smallest wait that would have avoided all underruns.
    rate: sample rate in Hz.
    """

    def __init__(self, rate: int, wait: float = 0.0) -> None:
        self._bytes_a_second = rate * BYTES_A_SAMPLE
        self._wait = wait
        self._underruns, self._dry = 0, 0.0
        self._ends: float | None = None

    def take(self, moment: float, size: int) -> float:
        """Add a piece of ``size`` bytes that arrived at ``moment``. Return when its first sample is played."""
        if self._ends is None:
            self._ends = moment + self._wait
        elif moment > self._ends:
            self._underruns += 1
            self._dry += moment - self._ends
            self._ends = moment
        begins = self._ends
        self._ends += size / self._bytes_a_second
        return begins

    @property
    def listening(self) -> Listening:
        """The result so far."""
        return Listening(self._underruns, self._dry)


def listen(pieces: Iterable[Piece], rate: int, wait: float = 0.0) -> Listening:
    """Simulate playback of all pieces and return the result."""
    player = Player(rate, wait)
    for moment, size in pieces:
        player.take(moment, size)
    return player.listening


def heard_at(pieces: Iterable[Piece], rate: int, sample: int) -> tuple[float, float]:
    """Return when the sample with index ``sample`` arrived, and when a player without a buffer played it.

    Raises ValueError when there is no such sample.
    """
    player, begin = Player(rate), sample * BYTES_A_SAMPLE
    came = 0
    for moment, size in pieces:
        plays = player.take(moment, size)
        if begin + BYTES_A_SAMPLE <= came + size:
            return moment, plays + (begin - came) / (rate * BYTES_A_SAMPLE)
        came += size
    raise ValueError("there is no such sample")
