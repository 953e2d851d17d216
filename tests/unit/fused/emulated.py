"""Compile the CUDA kernels for the CPU: ``emulate.h`` takes the place of the GPU."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from engine.checkpoint.architecture import Transformer
from engine.talker.fused import batched, layers, persistent
from engine.talker.fused.batched import BatchedSizes
from engine.talker.fused.layers import LayerSizes
from engine.talker.fused.persistent import CUDA, Sizes
from engine.talker.fused.weights import PredictorWeights
from tests.support.code_predictors import random_weights

HERE = Path(__file__).parent
SHAPE = Transformer(hidden=128, intermediate=192, layers=2, heads=4, kv_heads=2, head_dim=64, rope_theta=1e6, eps=1e-6)
SMALL = Sizes(SHAPE, 128, 4, 256, blocks=2, warps=4, slices=(4, 2, 4, 2, 2, 2))
"""Two blocks of four warps, with a projection before the layers."""
WITHOUT_PROJECTION = replace(SMALL, talker_hidden=SHAPE.hidden)
LIKE_PUBLISHED = Sizes(
    Transformer(hidden=256, intermediate=512, layers=1, heads=16, kv_heads=8, head_dim=64, rope_theta=1e6, eps=1e-6),
    512, 3, 512, blocks=2,
)  # fmt: skip
"""Sixteen warps, and the slices of the published model."""


BATCHED = BatchedSizes(
    Transformer(hidden=256, intermediate=256, layers=2, heads=2, kv_heads=1, head_dim=128, rope_theta=1e6, eps=1e-6),
    256, 3, 512, rows=16, parts=2, packed_parts=2, blocks=4, row_slots=2, weights_in_flight=2,
)  # fmt: skip
"""One group of four blocks. Every matrix is split into several stages or parts."""
TWO_GROUPS = replace(BATCHED, blocks=8, packed_parts=4, groups=2)

LAYERS = LayerSizes(
    Transformer(hidden=256, intermediate=512, layers=2, heads=2, kv_heads=1, head_dim=128, rope_theta=1e6, eps=1e-6),
    rows=16, parts=2, qkv_parts=2, blocks=8, split_pages=16, row_slots=2, weights_in_flight=2,
)  # fmt: skip
PROMPT_LAYERS = replace(LAYERS, rows=24, blocks=16, prompts=True)
"""For steps with prompts. Two teams of four warps of a block attend to different rows."""


def weights_of(sizes: Sizes | BatchedSizes, dtype: torch.dtype = torch.bfloat16) -> PredictorWeights:
    return random_weights(
        sizes.shape, vocab=sizes.vocab, codebooks=sizes.codebooks, talker_hidden=sizes.talker_hidden, dtype=dtype
    )


def emulated_kernel(folder: Path, sizes: Sizes, rows: int, seed: int) -> Callable[[ctypes.Structure], None]:
    """The persistent kernel for up to ``rows`` rows. seed: determines the order in which threads run."""
    return _emulated(folder, "persistent", persistent.KERNEL, replace(sizes, ring=3).macros(rows), seed)


def emulated_batched_kernel(folder: Path, sizes: BatchedSizes, seed: int) -> Callable[[ctypes.Structure], None]:
    """The batched kernel. seed: determines the order in which threads run."""
    return _emulated(folder, "batched", batched.KERNEL, _few_slots(sizes), seed)


def emulated_layers_kernel(folder: Path, sizes: LayerSizes, seed: int) -> Callable[[ctypes.Structure], None]:
    """The kernel of the talker's layers. seed: determines the order in which threads run."""
    return _emulated(folder, "layers", layers.KERNEL, _few_slots(sizes), seed)


def _few_slots(sizes: BatchedSizes | LayerSizes) -> list[str]:
    return [*(each for each in sizes.macros() if "WEIGHT_SLOTS" not in each), "-DWEIGHT_SLOTS=3"]


def _emulated(
    folder: Path, source: str, kernel: str, macros: Sequence[str], seed: int
) -> Callable[[ctypes.Structure], None]:
    library = folder / f"{source}.so"
    options = [
        *macros, "-DEMULATED", f'-DSOURCE="{source}.cu"', f"-DKERNEL={kernel}", "-I", str(CUDA), "-I", str(HERE),
        "-U_FORTIFY_SOURCE",  # it does not allow jumps between stacks
    ]  # fmt: skip
    command = ["g++", "-O1", "-std=c++17", "-shared", "-fPIC", "-w", *options, str(HERE / "emulate.cpp")]
    subprocess.run([*command, "-o", str(library)], check=True)
    run = ctypes.CDLL(str(library)).run
    return lambda params: run(ctypes.byref(params), ctypes.c_uint(seed))
