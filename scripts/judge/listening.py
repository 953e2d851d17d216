"""A listener of a server: when which audio came."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from engine.protocol.request import SAMPLE_RATE
from scripts.judge.expected import most_frames
from scripts.judge.serving import Serving
from scripts.judge.sound import onset_s

_SAMPLE_BYTES = 2


@dataclass(frozen=True)
class Line:
    """What is asked for."""

    text: str
    voice: str
    seed: int


@dataclass(frozen=True)
class Listened:
    """arrivals: seconds since the request was sent, one per piece; pieces: 16-bit samples at 24 kHz."""

    arrivals: Sequence[float]
    pieces: Sequence[bytes]

    @property
    def audio_s(self) -> float:
        """Seconds of sound."""
        return sum(map(len, self.pieces)) / _SAMPLE_BYTES / SAMPLE_RATE

    @property
    def real_time_factor(self) -> float:
        """Seconds until all had come, for each second of sound."""
        return self.arrivals[-1] / self.audio_s

    @property
    def first_audible_s(self) -> float:
        """When a player that plays what has come first makes a sound: silence at the beginning is waited through."""
        samples = np.frombuffer(b"".join(self.pieces), "<i2").astype(np.float32) / np.float32(2**15)
        onset = onset_s(samples, SAMPLE_RATE)
        came = next((when for when, had in zip(self.arrivals, self._seconds_had(), strict=True) if had > onset), np.inf)
        return max(self.arrivals[0] + onset, came)

    @property
    def starved_s(self) -> float:
        """The longest that a player which began with the first piece waited for the next."""
        had = self._seconds_had()
        waits = [when - self.arrivals[0] - before for when, before in zip(self.arrivals[1:], had, strict=False)]
        return max([0.0, *waits])

    def _seconds_had(self) -> list[float]:
        """Seconds of sound that had come with each piece."""
        return [total / _SAMPLE_BYTES / SAMPLE_RATE for total in accumulate(map(len, self.pieces))]


def listen(server: Serving, line: Line) -> Listened:
    """Hear one utterance to its end. Raises RuntimeError where the server refuses it."""
    body = {
        "input": line.text,
        "voice": line.voice,
        "seed": line.seed,
        "response_format": "pcm",
        "max_new_tokens": most_frames(line.text),
    }
    connection = server.connect()
    connection.connect()
    sent = time.monotonic()
    connection.request("POST", "/v1/audio/speech", json.dumps(body), {"Content-Type": "application/json"})
    with closing(connection), connection.getresponse() as response:
        if response.status != http.client.OK:
            raise RuntimeError(f"{response.status}: {response.read().decode(errors='replace')}")
        arrivals, pieces = [], []
        while piece := response.read1():
            arrivals.append(time.monotonic() - sent)
            pieces.append(piece)
    return Listened(arrivals, pieces)


def listen_together(server: Serving, lines: Sequence[Line]) -> list[Listened]:
    """Hear several utterances that are asked for at once."""
    with ThreadPoolExecutor(len(lines)) as pool:
        return list(pool.map(lambda line: listen(server, line), lines))
