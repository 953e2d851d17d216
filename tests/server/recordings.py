"""Recordings for cloning."""

from __future__ import annotations

import base64
import io

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

RATE = 16_000


def tone(seconds: float) -> NDArray[np.float32]:
    """A voice, as far as an encoder is concerned."""
    time = np.arange(int(seconds * RATE)) / RATE
    return (0.3 * np.sin(2 * np.pi * (180 + 40 * np.sin(9 * time)) * time)).astype(np.float32)


def wav(samples: NDArray[np.float32]) -> bytes:
    """A WAV file."""
    file = io.BytesIO()
    sf.write(file, samples, RATE, format="WAV")
    return file.getvalue()


def data_url(samples: NDArray[np.float32]) -> str:
    """The file as a request carries it."""
    return "data:audio/wav;base64," + base64.b64encode(wav(samples)).decode()
