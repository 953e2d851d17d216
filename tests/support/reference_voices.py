"""Reference recordings of noise, their features, and comparisons of encoded voices."""

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
"""Minimum margin of a code that rounding cannot change. When a code changes, the later codes of its frame may, too."""


def recording(samples: int, seed: int = 0) -> NDArray[np.float32]:
    """Return noise that gets louder and quieter."""
    noise = np.random.default_rng([seed, samples]).standard_normal(samples)
    return (0.1 * noise * np.sin(np.arange(samples) / 3000)).astype(np.float32)


def padded(recordings: Sequence[NDArray[np.float32]], columns: int, beyond: float = 0.0) -> torch.Tensor:
    """Return recordings as rows [recordings, columns], padded with noise of the amplitude ``beyond``."""
    rows = beyond * torch.randn(len(recordings), columns, generator=torch.Generator().manual_seed(0))
    for row, samples in zip(rows, recordings, strict=True):
        row[: len(samples)] = torch.from_numpy(samples)
    return rows


def log_mel(samples: torch.Tensor, rate: int, bands: int) -> torch.Tensor:
    """Return the log-mel spectrogram [bands, frames] of one recording, float32 [samples]."""
    return LogMel(rate, bands, samples.device)(samples[None], FullLengths())[0]


@torch.inference_mode()
def margins(encoder: SpeechEncoder, samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the margin of each code [frames, books]: how much farther away the second nearest vector was."""
    latents = encoder.latents(torch.from_numpy(samples))
    margins: list[torch.Tensor] = []
    for kind in encoder._quantize._groups:
        rest = latents @ kind._projection.T
        for vectors in kind._codebooks:
            distances, order = torch.cdist(rest, vectors).sort(-1)
            margins.append(distances[:, 1] - distances[:, 0])
            rest = rest - vectors[order[:, 0]]
    return torch.stack(margins, 1).cpu().numpy()


def assert_same_codes(codes: NDArray[np.int64], expected: NDArray[np.int64], margins: NDArray[np.float32]) -> None:
    """Assert that the codes are equal, except where rounding may change them."""
    assert codes.shape == expected.shape
    safe = np.logical_and.accumulate(margins > SAFE_MARGIN, axis=1)
    assert safe.mean() > 0.5
    assert np.array_equal(codes[safe], expected[safe])


def assert_same_vector(vector: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    """Assert that the vectors are equal within 1e-4 of the largest value."""
    assert vector.shape == expected.shape
    assert np.abs(vector - expected).max() < 1e-4 * np.abs(expected).max()


def assert_same_voice(voice: Voice, expected: Voice, margins: NDArray[np.float32] | None) -> None:
    """Assert that the voices are equal. margins: of the expected codes; None if the voice must not have codes."""
    assert_same_vector(voice.embedding, expected.embedding)
    if margins is None:
        assert voice.codes is None
    else:
        assert voice.codes is not None
        assert expected.codes is not None
        assert_same_codes(voice.codes, expected.codes, margins)
