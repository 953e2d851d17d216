"""What the persistent kernel is compiled for: a model's sizes, and how the blocks of a launch share its matrices."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.architecture import Transformer
from engine.talker.fused.weights import PredictorWeights

_SHAPE = Transformer(
    hidden=1024, intermediate=3072, layers=5, heads=16, kv_heads=8, head_dim=128, rope_theta=1e6, eps=1e-6
)
_VOCAB, _BOOKS, _TALKER_WIDTHS = 2048, 16, (1024, 2048)


MOST_ROWS = 16
"""Of one launch. With more the Triton form is faster: docs/decisions.md, "What did not pay"."""
KERNELS = (1, MOST_ROWS)
"""The most rows of each. One row's computes attention and draws in every block, which saves meetings of all blocks."""


def kernel_for(rows: int) -> int:
    """The smallest of KERNELS that takes so many."""
    return next(most for most in KERNELS if rows <= most)


@dataclass(frozen=True)
class Sizes:
    """A model's, and how the grid shares it.

    ring: pairs of units under way to each warp; slices: of the columns of entrance, qkv, out, gate_up, down and head;
    fp8: matrices are in eight bits (``eight_bits``).
    """

    shape: Transformer
    vocab: int
    books: int
    talker_hidden: int
    blocks: int = 128
    warps: int = 16
    ring: int = 10
    slices: tuple[int, int, int, int, int, int] = (16, 4, 16, 8, 16, 8)
    fp8: bool = False

    @property
    def projects(self) -> bool:
        """Whether talker states are wider than the predictor's rows."""
        return self.talker_hidden != self.shape.hidden

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.warps * 32

    def macros(self, rows: int) -> list[str]:
        """Compiler options of the kernel for up to ``rows``, one of KERNELS."""
        shape = self.shape
        named: dict[str, object] = {
            "HIDDEN": shape.hidden, "INNER": shape.intermediate, "LAYERS": shape.layers, "HEADS": shape.heads,
            "KV_HEADS": shape.kv_heads, "HEAD_DIM": shape.head_dim, "VOCAB": self.vocab, "BOOKS": self.books,
            "TALKER": self.talker_hidden, "PROJECT": int(self.projects), "CTAS": self.blocks, "WARPS": self.warps,
            "STAGES": self.ring, "FP8": int(self.fp8), "FUSED": int(rows == 1),
            "SOFTMAX_SCALE": f"{shape.head_dim**-0.5:.9f}f",
        }  # fmt: skip
        parts = ("ENTRANCE", "QKV", "OUT", "GATE_UP", "DOWN", "HEAD")
        named |= {f"SLICES_{part}": each for part, each in zip(parts, self.slices, strict=True)}
        return [f"-D{name}={value}" for name, value in named.items()]


def published_sizes(weights: PredictorWeights) -> Sizes | None:
    """The sizes of the published code predictor, of either width of the talker; None for any other's."""
    shape = replace(weights.shape, rope_theta=_SHAPE.rope_theta, eps=_SHAPE.eps)
    known = (shape, weights.vocab, weights.books) == (_SHAPE, _VOCAB, _BOOKS)
    if not known or weights.talker_hidden not in _TALKER_WIDTHS:
        return None
    return Sizes(weights.shape, weights.vocab, weights.books, weights.talker_hidden)
