"""Split residual vector quantization with moving-average codebooks (VQ-VAE-2; SoundStream; Mimi; SPEC 8).

A semantic codebook and a residual stack of acoustic ones quantize the same latents.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

_DECAY = 0.99
_DEAD = 0.1
"""A code whose usage is below this share of the mean is replaced by a random latent."""


class Quantized(NamedTuple):
    """The result of quantization.

    vectors: [..., out]. codes: int64 [..., books]. commitment: scalar. semantic: the first codebook's vectors.
    targets: the inputs of each codebook, [books, n, width], without gradients. projected: the projected latents of each
    stack, [n, width].
    """

    vectors: Tensor
    codes: Tensor
    commitment: Tensor
    semantic: Tensor
    targets: Tensor
    projected: tuple[Tensor, ...]


class Codebook(nn.Module):
    """``size`` vectors, stored as ``embed_sum / cluster_usage`` like in the published files."""

    embed_sum: Tensor
    cluster_usage: Tensor
    initialized: Tensor

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.register_buffer("embed_sum", torch.randn(size, width))
        self.register_buffer("cluster_usage", torch.ones(size))
        self.register_buffer("initialized", torch.zeros(1))

    def vectors(self) -> Tensor:
        """Return the vectors [size, width]."""
        return self.embed_sum / self.cluster_usage.clamp(min=1e-5)[:, None]

    def nearest(self, x: Tensor) -> Tensor:
        """Return the codes [n] of the nearest vectors to x [n, width]."""
        vectors = self.vectors()
        return (vectors.square().sum(1) - 2 * x @ vectors.T).argmin(1)


class ResidualStack(nn.Module):
    """Codebooks that each quantize the residual of the previous ones, between two projections."""

    def __init__(self, inputs: int, outputs: int, books: int, size: int, width: int) -> None:
        super().__init__()
        self.input_proj = nn.Conv1d(inputs, width, 1, bias=False)
        self.output_proj = nn.Conv1d(width, outputs, 1, bias=False)
        self.layers = nn.ModuleList(nn.ModuleDict({"codebook": Codebook(size, width)}) for _ in range(books))

    def forward(self, latents: Tensor) -> Quantized:
        """Quantize latents [n, inputs] to vectors [n, outputs], with straight-through gradients."""
        projected = F.linear(latents, self.input_proj.weight.squeeze(-1))
        residual, codes, targets, commitment = projected, [], [], projected.new_zeros(())
        for book in self.books():
            targets.append(residual.detach())
            chosen = book.nearest(targets[-1])
            vectors = book.vectors()[chosen]
            commitment = commitment + F.mse_loss(residual, vectors)
            residual = residual - vectors
            codes.append(chosen)
        quantized = projected - residual.detach()
        vectors = F.linear(quantized, self.output_proj.weight.squeeze(-1))
        commitment = commitment / len(self.layers)
        return Quantized(vectors, torch.stack(codes, 1), commitment, vectors, torch.stack(targets), (projected,))

    def bypass(self, latents: Tensor) -> Quantized:
        """Return the projections without quantization. There are no codes, and the only target is the projection."""
        projected = F.linear(latents, self.input_proj.weight.squeeze(-1))
        vectors = F.linear(projected, self.output_proj.weight.squeeze(-1))
        none = torch.zeros(len(latents), 0, dtype=torch.long, device=latents.device)
        return Quantized(vectors, none, projected.new_zeros(()), vectors, projected.detach()[None], (projected,))

    def books(self) -> Iterator[Codebook]:
        """Return the codebooks in order."""
        return (module for module in self.layers.modules() if isinstance(module, Codebook))

    def lookup(self, codes: Tensor) -> Tensor:
        """Return the vectors [n, outputs] of codes [n, books]."""
        books = [book.vectors()[codes[:, index]] for index, book in enumerate(self.books())]
        return F.linear(torch.stack(books).sum(0), self.output_proj.weight.squeeze(-1))


class SplitQuantizer(nn.Module):
    """A semantic stack of one codebook, and an acoustic stack of the others. Always computes in float32."""

    def __init__(self, inputs: int, outputs: int, books: int, size: int, width: int) -> None:
        super().__init__()
        self.semantic = ResidualStack(inputs, outputs, 1, size, width)
        self.acoustic = ResidualStack(inputs, outputs, books - 1, size, width)

    def forward(self, latents: Tensor, quantize: bool = True) -> Quantized:
        """Quantize latents [batch, frames, inputs]: vectors [batch, frames, outputs], codes [batch, frames, books]."""
        shape = latents.shape[:2]
        with torch.autocast(latents.device.type, enabled=False):
            flat = latents.float().flatten(0, 1)
            if quantize:
                semantic, acoustic = self.semantic(flat), self.acoustic(flat)
            else:
                semantic, acoustic = self.semantic.bypass(flat), self.acoustic.bypass(flat)
        return Quantized(
            (semantic.vectors + acoustic.vectors).unflatten(0, shape),
            torch.cat((semantic.codes, acoustic.codes), 1).unflatten(0, shape),
            semantic.commitment + acoustic.commitment,
            semantic.vectors.unflatten(0, shape),
            torch.cat((semantic.targets, acoustic.targets)),
            (*semantic.projected, *acoustic.projected),
        )

    def lookup(self, codes: Tensor) -> Tensor:
        """Return the vectors [batch, frames, outputs] of codes [batch, frames, books]."""
        flat = codes.flatten(0, 1)
        vectors = self.semantic.lookup(flat[:, :1]) + self.acoustic.lookup(flat[:, 1:])
        return vectors.unflatten(0, codes.shape[:2])

    def books(self) -> list[Codebook]:
        """Return all codebooks in the order of the codes."""
        return [*self.semantic.books(), *self.acoustic.books()]


class CodebookAverages:
    """Updates the codebooks of a quantizer with moving averages, identically in all processes.

    started: whether they have been initialized from latents.
    """

    def __init__(self, quantizer: SplitQuantizer) -> None:
        self._quantizer, self._books = quantizer, quantizer.books()
        self.started = all(bool(book.initialized.item()) for book in self._books)

    @torch.no_grad()
    def start(self, latents: Tensor) -> None:
        """Initialize the codebooks with random latents [batch, frames, inputs] or their residuals."""
        for stack in (self._quantizer.semantic, self._quantizer.acoustic):
            residual = F.linear(latents.float().flatten(0, 1), stack.input_proj.weight.squeeze(-1))
            for book in stack.books():
                book.embed_sum.copy_(self._random_targets(residual[None])[0])
                book.cluster_usage.fill_(1.0)
                book.initialized.fill_(1.0)
                residual = residual - book.vectors()[book.nearest(residual)]
        self.started = True

    @torch.no_grad()
    def update(self, targets: Tensor, codes: Tensor) -> None:
        """Update the codebooks with targets [books, n, width] and their codes [..., books]."""
        chosen = codes.flatten(0, -2).T
        one_hot = F.one_hot(chosen, len(self._books[0].cluster_usage)).float()
        usage, sums = one_hot.sum(1), one_hot.transpose(1, 2) @ targets
        if dist.is_initialized():
            statistics = torch.cat((usage[..., None], sums), -1)
            dist.all_reduce(statistics)
            usage, sums = statistics[..., 0], statistics[..., 1:]
        old_usage = torch.stack([book.cluster_usage for book in self._books])
        old_sums = torch.stack([book.embed_sum for book in self._books])
        usage, sums = old_usage.lerp(usage, 1 - _DECAY), old_sums.lerp(sums, 1 - _DECAY)
        min_usage = _DEAD * usage.mean(1, keepdim=True)
        dead = usage < min_usage
        sums = torch.where(dead[..., None], self._random_targets(targets) * 2 * min_usage[..., None], sums)
        usage = torch.where(dead, 2 * min_usage, usage)
        for index, book in enumerate(self._books):
            book.cluster_usage.copy_(usage[index])
            book.embed_sum.copy_(sums[index])

    def _random_targets(self, targets: Tensor) -> Tensor:
        """Return a random target of [books, n, width] for each vector of each codebook, the same in all processes."""
        size = len(self._books[0].cluster_usage)
        chosen_targets = targets[:, torch.randint(targets.shape[1], (size,), device=targets.device)].contiguous()
        if dist.is_initialized():
            dist.broadcast(chosen_targets, 0)
        return chosen_targets
