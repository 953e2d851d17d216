"""Split residual vector quantisation with running averages as codebooks (VQ-VAE-2; SoundStream; Mimi; SPEC 8).

One semantic codebook and a residual stack of acoustic ones, both from the same latent.
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
"""A code used less often than this, as a share of an even usage, is put where a latent is."""


class Quantized(NamedTuple):
    """vectors: [..., out]; codes: int64 [..., books]; commitment: scalar; semantic: the first book's vectors.

    targets: what each book was to match, [books, n, width], without gradients. projected: the stacks' own latents,
    [n, width] each.
    """

    vectors: Tensor
    codes: Tensor
    commitment: Tensor
    semantic: Tensor
    targets: Tensor
    projected: tuple[Tensor, ...]


class Codebook(nn.Module):
    """size vectors; ``embed_sum / cluster_usage`` as in the published files."""

    embed_sum: Tensor
    cluster_usage: Tensor
    initialized: Tensor

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.register_buffer("embed_sum", torch.randn(size, width))
        self.register_buffer("cluster_usage", torch.ones(size))
        self.register_buffer("initialized", torch.zeros(1))

    def vectors(self) -> Tensor:
        """[size, width]."""
        return self.embed_sum / self.cluster_usage.clamp(min=1e-5)[:, None]

    def nearest(self, x: Tensor) -> Tensor:
        """[n, width] -> codes [n]."""
        vectors = self.vectors()
        return (vectors.square().sum(1) - 2 * x @ vectors.T).argmin(1)


class ResidualStack(nn.Module):
    """Codebooks one after the other, each of what those before left over, between two projections."""

    def __init__(self, inputs: int, outputs: int, books: int, size: int, width: int) -> None:
        super().__init__()
        self.input_proj = nn.Conv1d(inputs, width, 1, bias=False)
        self.output_proj = nn.Conv1d(width, outputs, 1, bias=False)
        self.layers = nn.ModuleList(nn.ModuleDict({"codebook": Codebook(size, width)}) for _ in range(books))

    def forward(self, latents: Tensor) -> Quantized:
        """Latents [n, inputs] -> vectors [n, outputs] with straight-through gradients."""
        projected = F.linear(latents, self.input_proj.weight.squeeze(-1))
        rest, codes, targets, commitment = projected, [], [], projected.new_zeros(())
        for book in self.books():
            targets.append(rest.detach())
            chosen = book.nearest(targets[-1])
            vectors = book.vectors()[chosen]
            commitment = commitment + F.mse_loss(rest, vectors)
            rest = rest - vectors
            codes.append(chosen)
        quantized = projected - rest.detach()
        vectors = F.linear(quantized, self.output_proj.weight.squeeze(-1))
        commitment = commitment / len(self.layers)
        return Quantized(vectors, torch.stack(codes, 1), commitment, vectors, torch.stack(targets), (projected,))

    def through(self, latents: Tensor) -> Quantized:
        """As ``forward``, but nothing is quantised: there are no codes, and one target, the projection itself."""
        projected = F.linear(latents, self.input_proj.weight.squeeze(-1))
        vectors = F.linear(projected, self.output_proj.weight.squeeze(-1))
        none = torch.zeros(len(latents), 0, dtype=torch.long, device=latents.device)
        return Quantized(vectors, none, projected.new_zeros(()), vectors, projected.detach()[None], (projected,))

    def books(self) -> Iterator[Codebook]:
        """The codebooks in order."""
        return (module for module in self.layers.modules() if isinstance(module, Codebook))

    def lookup(self, codes: Tensor) -> Tensor:
        """Codes [n, books] -> vectors [n, outputs]."""
        books = [book.vectors()[codes[:, index]] for index, book in enumerate(self.books())]
        return F.linear(torch.stack(books).sum(0), self.output_proj.weight.squeeze(-1))


class SplitQuantizer(nn.Module):
    """The semantic stack of one codebook, and the acoustic one of the others. Always in float32."""

    def __init__(self, inputs: int, outputs: int, books: int, size: int, width: int) -> None:
        super().__init__()
        self.semantic = ResidualStack(inputs, outputs, 1, size, width)
        self.acoustic = ResidualStack(inputs, outputs, books - 1, size, width)

    def forward(self, latents: Tensor, quantise: bool = True) -> Quantized:
        """Latents [batch, frames, inputs] -> vectors [batch, frames, outputs] and codes [batch, frames, books]."""
        shape = latents.shape[:2]
        with torch.autocast(latents.device.type, enabled=False):
            flat = latents.float().flatten(0, 1)
            if quantise:
                semantic, acoustic = self.semantic(flat), self.acoustic(flat)
            else:
                semantic, acoustic = self.semantic.through(flat), self.acoustic.through(flat)
        return Quantized(
            (semantic.vectors + acoustic.vectors).unflatten(0, shape),
            torch.cat((semantic.codes, acoustic.codes), 1).unflatten(0, shape),
            semantic.commitment + acoustic.commitment,
            semantic.vectors.unflatten(0, shape),
            torch.cat((semantic.targets, acoustic.targets)),
            (*semantic.projected, *acoustic.projected),
        )

    def lookup(self, codes: Tensor) -> Tensor:
        """Codes [batch, frames, books] -> vectors [batch, frames, outputs]."""
        flat = codes.flatten(0, 1)
        vectors = self.semantic.lookup(flat[:, :1]) + self.acoustic.lookup(flat[:, 1:])
        return vectors.unflatten(0, codes.shape[:2])

    def books(self) -> list[Codebook]:
        """All codebooks in the order of codes."""
        return [*self.semantic.books(), *self.acoustic.books()]


class Averages:
    """Moves all codebooks of a quantizer towards what was quantised, alike on all machines.

    started: whether they have been put where latents are.
    """

    def __init__(self, quantizer: SplitQuantizer) -> None:
        self._quantizer, self._books = quantizer, quantizer.books()

        self.started = all(bool(book.initialized.item()) for book in self._books)

    @torch.no_grad()
    def start(self, latents: Tensor) -> None:
        """Codebooks begin at random latents [batch, frames, inputs], each at what those before it leave over."""
        for stack in (self._quantizer.semantic, self._quantizer.acoustic):
            rest = F.linear(latents.float().flatten(0, 1), stack.input_proj.weight.squeeze(-1))
            for book in stack.books():
                book.embed_sum.copy_(self._drawn(rest[None])[0])
                book.cluster_usage.fill_(1.0)
                book.initialized.fill_(1.0)
                rest = rest - book.vectors()[book.nearest(rest)]
        self.started = True

    @torch.no_grad()
    def learn(self, targets: Tensor, codes: Tensor) -> None:
        """targets [books, n, width] and the codes [..., books] they got."""
        chosen = codes.flatten(0, -2).T
        one_hot = F.one_hot(chosen, len(self._books[0].cluster_usage)).float()
        usage, sums = one_hot.sum(1), one_hot.transpose(1, 2) @ targets
        if dist.is_initialized():
            both = torch.cat((usage[..., None], sums), -1)
            dist.all_reduce(both)
            usage, sums = both[..., 0], both[..., 1:]
        old_usage = torch.stack([book.cluster_usage for book in self._books])
        old_sums = torch.stack([book.embed_sum for book in self._books])
        usage, sums = old_usage.lerp(usage, 1 - _DECAY), old_sums.lerp(sums, 1 - _DECAY)
        least = _DEAD * usage.mean(1, keepdim=True)
        dead = usage < least
        sums = torch.where(dead[..., None], self._drawn(targets) * 2 * least[..., None], sums)
        usage = torch.where(dead, 2 * least, usage)
        for index, book in enumerate(self._books):
            book.cluster_usage.copy_(usage[index])
            book.embed_sum.copy_(sums[index])

    def _drawn(self, targets: Tensor) -> Tensor:
        """A random target of [books, n, width] for every vector of every book, the first machine's for all."""
        size = len(self._books[0].cluster_usage)
        drawn = targets[:, torch.randint(targets.shape[1], (size,), device=targets.device)].contiguous()
        if dist.is_initialized():
            dist.broadcast(drawn, 0)
        return drawn
