"""A real-time client: plays audio as it arrives, and runs dry when it arrives late."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from server.bench.trace import Piece

BYTES_A_SAMPLE = 2


@dataclass(frozen=True, slots=True)
class Listening:
    """How it went: times the player ran dry, and the seconds in all for which it was silent then."""

    underruns: int
    dry: float


class Player:
    """Plays pieces of samples from ``wait`` seconds after the first one on; without audio it stands still.

    So ``dry`` with a wait of 0 is also the shortest wait with which it would never have run dry.
    rate: samples a second.
    """

    def __init__(self, rate: int, wait: float = 0.0) -> None:
        self._bytes_a_second = rate * BYTES_A_SAMPLE
        self._wait = wait
        self._underruns, self._dry = 0, 0.0
        self._ends: float | None = None

    def take(self, moment: float, size: int) -> float:
        """A piece of ``size`` bytes came; the moment at which its first sample is played."""
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
        """How it went so far."""
        return Listening(self._underruns, self._dry)


def listen(pieces: Iterable[Piece], rate: int, wait: float = 0.0) -> Listening:
    """Play all pieces."""
    player = Player(rate, wait)
    for moment, size in pieces:
        player.take(moment, size)
    return player.listening


def heard_at(pieces: Iterable[Piece], rate: int, sample: int) -> tuple[float, float]:
    """When the sample of that index came, and when a player who waits for nothing played it. Raises ValueError."""
    player, begin = Player(rate), sample * BYTES_A_SAMPLE
    came = 0
    for moment, size in pieces:
        plays = player.take(moment, size)
        if begin + BYTES_A_SAMPLE <= came + size:
            return moment, plays + (begin - came) / (rate * BYTES_A_SAMPLE)
        came += size
    raise ValueError("there is no such sample")
