"""Recordings of noise, what is heard in them, the voices made of them, and how alike those are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from engine.models.ragged import FullLengths
from engine.models.speaker_encoder import LogMel
from engine.models.speech_encoder import SpeechEncoder
from engine.protocol.request import Voice

SAFE_MARGIN = 1e-3
"""A code whose vector was nearer than the next by less may differ, and with it the frame's later codes."""


def recording(samples: int, seed: int = 0) -> NDArray[np.float32]:
    """Noise that swells and fades."""
    noise = np.random.default_rng([seed, samples]).standard_normal(samples)
    return (0.1 * noise * np.sin(np.arange(samples) / 3000)).astype(np.float32)


def padded(recordings: Sequence[NDArray[np.float32]], columns: int, beyond: float = 0.0) -> torch.Tensor:
    """[recordings, columns], and noise as loud as ``beyond`` after each one's end."""
    rows = beyond * torch.randn(len(recordings), columns, generator=torch.Generator().manual_seed(0))
    for row, samples in zip(rows, recordings, strict=True):
        row[: len(samples)] = torch.from_numpy(samples)
    return rows


def log_mel(samples: torch.Tensor, rate: int, bands: int) -> torch.Tensor:
    """float32 samples [n] -> [bands, frames]: of one recording alone."""
    return LogMel(rate, bands, samples.device)(samples[None], FullLengths())[0]


@torch.inference_mode()
def margins(encoder: SpeechEncoder, samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """How much nearer each code's vector was than the next nearest, [frames, books]."""
    latents, found = encoder.latents(torch.from_numpy(samples)), []
    for kind in encoder._quantize._groups:
        rest = latents @ kind._projection.T
        for vectors in kind._codebooks:
            distances, order = torch.cdist(rest, vectors).sort(-1)
            found.append(distances[:, 1] - distances[:, 0])
            rest = rest - vectors[order[:, 0]]
    return torch.stack(found, 1).cpu().numpy()


def assert_same_codes(codes: NDArray[np.int64], expected: NDArray[np.int64], margins: NDArray[np.float32]) -> None:
    """Where rounding could not choose."""
    assert codes.shape == expected.shape
    safe = np.logical_and.accumulate(margins > SAFE_MARGIN, axis=1)
    assert safe.mean() > 0.5
    assert np.array_equal(codes[safe], expected[safe])


def assert_same_vector(vector: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    """Within 1e-4 of its largest value."""
    assert vector.shape == expected.shape
    assert np.abs(vector - expected).max() < 1e-4 * np.abs(expected).max()


def assert_same_voice(voice: Voice, expected: Voice, margins: NDArray[np.float32] | None) -> None:
    """margins: of the codes, where there must be some."""
    assert_same_vector(voice.embedding, expected.embedding)
    if margins is None:
        assert voice.codes is None
    else:
        assert_same_codes(voice.codes, expected.codes, margins)
