"""Synthetic recordings for voice cloning."""

from __future__ import annotations

import base64
import io

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

RATE = 16_000


def tone(seconds: float) -> NDArray[np.float32]:
    """A modulated tone that the voice encoders accept as a voice."""
    time = np.arange(int(seconds * RATE)) / RATE
    return (0.3 * np.sin(2 * np.pi * (180 + 40 * np.sin(9 * time)) * time)).astype(np.float32)


def wav(samples: NDArray[np.float32]) -> bytes:
    """Encode as a WAV file."""
    file = io.BytesIO()
    sf.write(file, samples, RATE, format="WAV")
    return file.getvalue()


def data_url(samples: NDArray[np.float32]) -> str:
    """The WAV file as a data URL for ``ref_audio``."""
    return "data:audio/wav;base64," + base64.b64encode(wav(samples)).decode()
