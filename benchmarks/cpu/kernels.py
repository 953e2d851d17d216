"""Compares the packed CPU kernels with plain torch, at the shapes of the full-size models.

    python benchmarks/cpu/kernels.py [--threads 2]

As in a decode step, every matrix product reads weights that are not in the CPU cache. "batch-invariant" says whether
the result of a row is bit-identical regardless of the other rows in the batch.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kernels.conv import Conv1d
from engine.kernels.linear import Linear

COPIES = 32
ROUNDS = 5
CONVOLUTIONS = (
    ("1024 to 1536, kernel 7", (1536, 1024, 7), 4),
    ("upsampling 1536 to 768 by 8", (6144, 1536, 2), 4),
    ("768 to 768, kernel 7", (768, 768, 7), 32),
    ("96 to 96, kernel 7", (96, 96, 7), 1920),
)
"""Name, weight shape [out, in, kernel], columns per frame."""


def best(call: Callable[[], object], repeats: int) -> float:
    """Return the mean seconds per call in the fastest of several rounds of ``repeats`` calls."""
    call()
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(repeats):
            call()
        times.append((time.perf_counter() - began) / repeats)
    return min(times)


def products(rows: int) -> None:
    """Print time, weight bandwidth and row independence of a 3072 x 1024 product with ``rows`` rows."""
    weights = [(torch.randn(3072, 1024) * 0.02).bfloat16() for _ in range(COPIES)]
    x = torch.randn(rows, 1024)
    kinds: dict[str, tuple[list[Callable[[Tensor], Tensor]], Tensor, int]] = {
        "float32, F.linear": ([_plain(weight.float()) for weight in weights], x, 4),
        "bfloat16, F.linear": ([_plain(weight) for weight in weights], x.bfloat16(), 2),
        "float16 packed, FBGEMM": ([Linear(weight.float()) for weight in weights], x, 2),
    }
    for name, (layers, batch_input, itemsize) in kinds.items():
        seconds = best(partial(_run_all, layers, batch_input), 1) / COPIES
        bandwidth = 3072 * 1024 * itemsize / seconds / 1e9
        invariant = "yes" if _rows_are_independent(layers[0], batch_input) else "no"
        print(f"  {name:24s}{seconds * 1e6:8.0f} us {bandwidth:6.1f} GB/s   batch-invariant: {invariant}")


def _run_all(layers: Sequence[Callable[[Tensor], Tensor]], x: Tensor) -> None:
    for layer in layers:
        layer(x)


def _plain(weight: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda x: F.linear(x, weight)


def _rows_are_independent(layer: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    batch = torch.randn(32, x.shape[1]).to(x.dtype)
    batched = layer(batch)
    return all(torch.equal(layer(batch[row : row + 1])[0], batched[row]) for row in range(32))


def convolutions(frames: int) -> None:
    """Print the times of Code2Wav's layers for a chunk of ``frames`` frames."""
    for name, shape, columns in CONVOLUTIONS:
        weight, bias = torch.randn(shape) / shape[1] ** 0.5, torch.randn(shape[0])
        x = torch.randn(1, shape[1], columns * frames + shape[2] - 1)
        packed = Conv1d(weight, bias, columns=columns)
        plain_seconds = best(partial(F.conv1d, x, weight, bias), 3)
        packed_seconds = best(partial(packed, x.transpose(1, 2).contiguous()), 3)
        print(f"  {name:30s}F.conv1d {plain_seconds * 1e3:7.2f} ms   packed {packed_seconds * 1e3:7.2f} ms")


@torch.inference_mode()
def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    torch.set_num_threads(parser.parse_args().threads)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    for rows in (1, 8):
        print(f"\n3072 x 1024, {rows} row(s)")
        products(rows)
    for frames in (1, 13):
        print(f"\nCode2Wav layers, {frames} frame(s)")
        convolutions(frames)


if __name__ == "__main__":
    main()
