"""An HTTP client that records when each piece of audio arrives."""

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
from scripts.judge.expected import max_frames
from scripts.judge.serving import ServedCheckpoint
from scripts.judge.sound import onset_s

_SAMPLE_BYTES = 2


@dataclass(frozen=True)
class StreamRequest:
    """A request for one utterance."""

    text: str
    voice: str
    seed: int


@dataclass(frozen=True)
class StreamResult:
    """The audio of one response. arrivals: seconds from the request to each piece. pieces: 16-bit samples at 24 kHz."""

    arrivals: Sequence[float]
    pieces: Sequence[bytes]

    @property
    def audio_s(self) -> float:
        """Duration of the audio in seconds."""
        return sum(map(len, self.pieces)) / _SAMPLE_BYTES / SAMPLE_RATE

    @property
    def real_time_factor(self) -> float:
        """Seconds until the last piece arrived, per second of audio."""
        return self.arrivals[-1] / self.audio_s

    @property
    def first_audible_s(self) -> float:
        """Seconds until a player without a buffer plays the first speech. It plays leading silence, too."""
        samples = np.frombuffer(b"".join(self.pieces), "<i2").astype(np.float32) / np.float32(2**15)
        onset = onset_s(samples, SAMPLE_RATE)
        arrived = next(
            (
                arrival
                for arrival, received in zip(self.arrivals, self._seconds_received(), strict=True)
                if received > onset
            ),
            np.inf,
        )
        return max(self.arrivals[0] + onset, arrived)

    @property
    def longest_underrun_s(self) -> float:
        """The longest underrun, in seconds, of a player that starts to play at the first piece."""
        received = self._seconds_received()
        waits = [
            arrival - self.arrivals[0] - before for arrival, before in zip(self.arrivals[1:], received, strict=False)
        ]
        return max([0.0, *waits])

    def _seconds_received(self) -> list[float]:
        """Return the seconds of audio received up to and including each piece."""
        return [total / _SAMPLE_BYTES / SAMPLE_RATE for total in accumulate(map(len, self.pieces))]


def stream_speech(server: ServedCheckpoint, request: StreamRequest) -> StreamResult:
    """Stream one utterance to its end. Raises RuntimeError when the server refuses it."""
    body = {
        "input": request.text,
        "voice": request.voice,
        "seed": request.seed,
        "response_format": "pcm",
        "max_new_tokens": max_frames(request.text),
    }
    connection = server.connect()
    connection.connect()
    began = time.monotonic()
    connection.request("POST", "/v1/audio/speech", json.dumps(body), {"Content-Type": "application/json"})
    with closing(connection), connection.getresponse() as response:
        if response.status != http.client.OK:
            raise RuntimeError(f"the server answered {response.status}: {response.read().decode(errors='replace')}")
        arrivals, pieces = [], []
        while piece := response.read1():
            arrivals.append(time.monotonic() - began)
            pieces.append(piece)
    return StreamResult(arrivals, pieces)


def stream_concurrently(server: ServedCheckpoint, requests: Sequence[StreamRequest]) -> list[StreamResult]:
    """Stream several utterances concurrently."""
    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(lambda request: stream_speech(server, request), requests))
