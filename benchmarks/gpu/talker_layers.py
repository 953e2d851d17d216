"""Measures the kernels of the talker's layers alone, with random weights of the published sizes, in CUDA graphs.

    python -m benchmarks.gpu.talker_layers [--size 1.7B] [--rows 1,4,16] [--positions 100,1000] [--errors]
    python -m benchmarks.gpu.talker_layers --kernels rows --rows 16,64,256
    python -m benchmarks.gpu.talker_layers --prompt --rows 24,64

Prints milliseconds per step, and the share of the time in which the GPU would read all weights and cached positions
once at ``--bandwidth`` TB/s. ``--kernels rows`` measures those for rows with short contexts instead of the one launch
for few rows. With ``--prompt`` the rows are those of one prompt, and have the positions from 0 on. ``--set NAME=VALUE``
changes a field of LayerSizes, to tune the kernel. ``--errors`` adds the distance of the states from those of the
reference in float32, and that of the reference in bfloat16.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from engine.talker.fused.layers import PAGE, LayerSizes, LayerWeights, PagedCache, TalkerLayers, prompt_sizes
from engine.talker.fused.layers_loading import row_layers, talker_layers
from engine.talker.fused.layers_reference import ReferenceLayers
from tests.support.code_predictors import relative
from tests.support.talker_layers import (
    PUBLISHED,
    Step,
    copied,
    in_float32,
    random_cache,
    random_layers,
    step_of,
    step_with_prompt,
)

if TYPE_CHECKING:
    from engine.talker.fused.row_layers import RowLayers

    Layers = TalkerLayers | RowLayers

DEVICE = torch.device("cuda")
_REPLAYS = 20
_REPEATS = 7


@torch.inference_mode()
def main() -> None:
    """Print a line for each number of positions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=PUBLISHED, default="1.7B")
    parser.add_argument("--kernels", choices=["one-launch", "rows"], default="one-launch")
    parser.add_argument("--prompt", action="store_true")
    parser.add_argument("--rows", type=_numbers, default=[1, 2, 4, 8, 16])
    parser.add_argument("--positions", type=_numbers, default=[100, 1000])
    parser.add_argument("--bandwidth", type=float, default=4.8, help="memory bandwidth of the GPU, TB/s")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument("--errors", action="store_true")
    options = parser.parse_args()
    shape, most, longest = PUBLISHED[options.size], max(options.rows), max(options.positions)
    changes = {name: int(value) for name, value in (each.split("=") for each in options.set)}
    sizes = prompt_sizes(shape) if options.prompt else LayerSizes(shape)
    sizes = replace(sizes, **changes)  # type: ignore[arg-type]  # fields of int
    weights, pages = random_layers(shape, longest + 1, DEVICE), most * (longest // PAGE + 1) + 1
    cache = random_cache(shape, pages, DEVICE)
    layers = row_layers(weights, cache) if options.kernels == "rows" else talker_layers(weights, cache, sizes)
    read = sum(each.nbytes for layer in weights.matrices for each in layer)
    position_bytes = 2 * shape.layers * shape.kv_heads * shape.head_dim * 2
    print(
        f"{torch.cuda.get_device_name()}, {options.size}, {options.kernels}"
        + (f", {sizes}, {sizes.weight_slots} stages of weights" if options.kernels == "one-launch" else ""),
        flush=True,
    )
    for positions in [0] if options.prompt else options.positions:
        for rows in options.rows:
            if options.prompt:
                step = step_with_prompt(0, rows, [], pages, DEVICE)
            else:
                step = step_of([positions] * rows, pages, DEVICE)
            x = torch.randn(rows, shape.hidden, device=DEVICE).bfloat16()
            time = milliseconds(layers, x, step)
            floor = (read + rows * positions * position_bytes) / options.bandwidth / 1e9
            line = f"{positions:5d} positions, {rows:3d} rows: {time:.3f} ms, {floor / time:.0%} of the bandwidth"
            if options.errors:
                line += ", errors: kernel {:.2e}, bfloat16 {:.2e}".format(*errors(layers, weights, cache, x, step))
            print(line, flush=True)


def milliseconds(layers: Layers, x: torch.Tensor, step: Step) -> float:
    """Return the time of a step, the median of several groups of replays."""
    graph = torch.cuda.CUDAGraph()
    layers(x, *step)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        layers(x, *step)
    graph.replay()
    times: list[float] = []
    for _ in range(_REPEATS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(_REPLAYS):
            graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / _REPLAYS)
    return statistics.median(times)


def errors(
    layers: Layers, weights: LayerWeights, cache: PagedCache, x: torch.Tensor, step: Step
) -> tuple[float, float]:
    """Return the distances from float32 of the kernel's states, and of the reference's in bfloat16."""
    exact = ReferenceLayers(in_float32(weights), copied(cache, torch.float32))(x, *step)
    return relative(layers(x, *step), exact), relative(ReferenceLayers(weights, copied(cache))(x, *step), exact)


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


if __name__ == "__main__":
    main()
