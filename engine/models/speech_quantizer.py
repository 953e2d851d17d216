"""The speech encoder's last part: latents in, codes out (SPEC 8). Always float32."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from engine.architecture import SpeechEncoderArchitecture

PREFIX = "quantizer."


class SpeechQuantizer:
    """Semantic and acoustic books both start from the latent, each with a projection of its own.

    tensors: those of the speech encoder that begin with ``PREFIX``. Books that give no codes are left out.
    """

    def __init__(
        self, tensors: Mapping[str, Tensor], architecture: SpeechEncoderArchitecture, *, device: torch.device
    ) -> None:
        semantic = architecture.semantic_quantizers
        counts = {"semantic": semantic, "acoustic": architecture.valid_quantizers - semantic}
        self._kinds = [_ResidualBooks(tensors, kind, books, device) for kind, books in counts.items()]

    def __call__(self, latents: Tensor) -> Tensor:
        """float32 [n, hidden] -> codes int64 [n, books]."""
        return torch.cat([kind(latents) for kind in self._kinds], 1)


class _ResidualBooks:
    def __init__(self, tensors: Mapping[str, Tensor], kind: str, books: int, device: torch.device) -> None:
        name = f"{PREFIX}{kind}_residual_vector_quantizer"
        self._projection = tensors[f"{name}.input_proj.weight"].to(device, torch.float32).squeeze(-1)
        self._books = [_vectors(tensors, f"{name}.layers.{book}.codebook", device) for book in range(books)]

    def __call__(self, latents: Tensor) -> Tensor:
        """Nearest vectors book by book, each of what the books before left over: [n, books]."""
        rest = latents @ self._projection.T
        codes = []
        for vectors in self._books:
            nearest = torch.cdist(rest[None], vectors[None])[0].argmin(-1)
            rest = rest - vectors[nearest]
            codes.append(nearest)
        return torch.stack(codes, 1)


def _vectors(tensors: Mapping[str, Tensor], name: str, device: torch.device) -> Tensor:
    """[size, width]: each vector's sum by how often it was used."""
    usage = tensors[f"{name}.cluster_usage"].to(device, torch.float32).clamp(min=1e-5)
    return tensors[f"{name}.embed_sum"].to(device, torch.float32) / usage[:, None]
