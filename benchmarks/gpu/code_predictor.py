"""Measures the time of sampling the codes of one frame on a GPU, in CUDA graphs, with every supported implementation.

``python -m benchmarks.gpu.code_predictor CHECKPOINT``. ``--plain`` adds plain torch. ``--cublas out all`` adds the
Triton implementation with the product ``out`` computed by cuBLAS, and with all products. ``--errors`` adds the errors
of the logits of each implementation and of other dtypes (``benchmarks.gpu.predictor_errors``, also on a CPU).
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from benchmarks.gpu.predictor_errors import (
    HEADING,
    Float32Reference,
    checkpoint_weights,
    errors_of,
    predictor_parts,
    table_row,
)
from engine.checkpoint.folder import Checkpoint, open_checkpoint
from engine.kernels.nvrtc import KernelError
from engine.models.code_predictor import CodePredictor
from engine.talker.fused import batched
from engine.talker.fused.batched import BatchedCodes
from engine.talker.fused.dispatch import batched_codes, persistent_codes
from engine.talker.fused.fp8 import round_to_fp8
from engine.talker.fused.persistent import MAX_ROWS, PersistentCodes
from engine.talker.fused.tiles import ALL_CUBLAS, FASTEST
from engine.talker.fused.triton import FusedFirstCodes, TritonCodes
from engine.talker.fused.weights import PredictorWeights, gather
from engine.talker.gpu_step.frame_sampler import PlainFirstCodes, PlainResidualCodes, ResidualCodes, RngKey
from engine.talker.gpu_step.graphs import batch_sizes
from engine.talker.gpu_step.slots import Slots
from engine.talker.sampling_params import CodebookParams, SamplingTensors

ROWS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
DEVICE = torch.device("cuda")
ONE_LAUNCH, BATCHED, TRITON = "one launch", "batched", "Triton"
_PARAMS = CodebookParams(temperature=0.9, top_k=50)
_REPLAYS = 10
_REPEATS = 7


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", help="a checkpoint folder")
    parser.add_argument("--rows", type=lambda text: [int(each) for each in text.split(",")], default=ROWS)
    parser.add_argument("--plain", action="store_true", help="also time plain torch")
    parser.add_argument("--cublas", nargs="*", choices=[*FASTEST, "all"], default=[])
    parser.add_argument("--errors", action="store_true")
    options = parser.parse_args()
    checkpoint = open_checkpoint(options.checkpoint)
    implementations = Implementations(checkpoint, max(options.rows), plain=options.plain, cublas=options.cublas)
    print(f"{'ms per frame':20s}" + "".join(f"{rows:>9d}" for rows in options.rows))
    for name, max_rows, implementation in implementations.residual:
        fitting = [rows for rows in options.rows if rows <= max_rows]
        times = {rows: implementations.residual_time(implementation, rows) for rows in fitting}
        _print(name, times, options.rows)
    for name, sample in implementations.first.items():
        _print(name, {rows: implementations.first_time(sample, rows) for rows in options.rows}, options.rows)
    if options.errors:
        implementations.print_errors(checkpoint_weights(checkpoint, DEVICE, torch.float32))


class Implementations:
    """All implementations that the GPU supports for a checkpoint, for up to ``rows`` rows."""

    @torch.inference_mode()
    def __init__(self, checkpoint: Checkpoint, rows: int, *, plain: bool, cublas: Sequence[str]) -> None:
        predictor_weights, talker, codec = predictor_parts(checkpoint, DEVICE, torch.bfloat16)
        self._talker, self._rows = talker, rows
        self._packed = packed = gather(predictor_weights, talker, codec)
        self.residual: list[tuple[str, int, ResidualCodes]] = []
        try:
            few = batch_sizes(min(rows, MAX_ROWS))
            self.residual.append((ONE_LAUNCH, MAX_ROWS, persistent_codes(packed, few)))
            fp8 = persistent_codes(round_to_fp8(packed), few, fp8=True)
            self.residual.append((f"{ONE_LAUNCH}, fp8", MAX_ROWS, fp8))
            many = batch_sizes(min(rows, batched.MAX_ROWS))
            self.residual.append((BATCHED, batched.MAX_ROWS, batched_codes(packed, many)))
        except KernelError as error:
            print(f"the one-launch kernels are not available: {error}")
        self.residual.append((TRITON, rows, TritonCodes(packed, rows)))
        for name in cublas:
            tiles = ALL_CUBLAS if name == "all" else {each: FASTEST[each] for each in FASTEST if each != name}
            self.residual.append((f"... cuBLAS {name}", rows, TritonCodes(packed, rows, tiles)))
        if plain:
            predictor = CodePredictor(predictor_weights, talker, code_tables=codec.tables, rows=rows)
            self.residual.append(("plain", rows, PlainResidualCodes(predictor, codec)))
        slots = Slots(rows, 64, talker, text_pad=0, device=DEVICE, dtype=torch.bfloat16)
        every, params = torch.arange(rows, device=DEVICE), SamplingTensors.of([_PARAMS] * rows, DEVICE)
        zeros = torch.zeros_like(every)
        slots.reset(every, seeds=zeros, codebook0_params=params, residual_params=params)
        self.first: dict[str, FusedFirstCodes | PlainFirstCodes] = {
            "codebook 0": FusedFirstCodes(slots),
            "... plain": PlainFirstCodes(slots),
        }

    @torch.inference_mode()
    def print_errors(self, exact: PredictorWeights) -> None:
        """Print a table of errors of the logits, for as many rows as each implementation supports.

        exact: the weights in float32.
        """
        print(HEADING)
        reference = Float32Reference(exact, self._rows)
        print(table_row("bfloat16", reference.reference_errors(self._packed)))
        print(table_row("fp8", reference.reference_errors(round_to_fp8(self._packed))), flush=True)
        for name, limit, form in self.residual:
            reference = Float32Reference(exact, min(limit, self._rows))
            if (logits := _logits(form, reference)) is not None:
                print(table_row(name, errors_of(logits, reference.logits)), flush=True)

    def residual_time(self, implementation: ResidualCodes, rows: int) -> float:
        """Return the milliseconds for codebooks 1 to 15."""
        generator = torch.Generator(DEVICE).manual_seed(0)
        width, vocab = self._talker.transformer.hidden, self._talker.predictor.vocab
        hidden = torch.randn(rows, width, generator=generator, device=DEVICE).bfloat16()
        first = torch.randint(vocab, (rows,), generator=generator, device=DEVICE)
        params = SamplingTensors.of([_PARAMS] * rows, DEVICE)
        rng = RngKey(first * 7919, torch.zeros_like(first))
        return milliseconds(lambda: implementation(hidden, first, params, rng))

    def first_time(self, sample: FusedFirstCodes | PlainFirstCodes, rows: int) -> float:
        """Return the milliseconds for codebook 0, without the product that computes its logits."""
        logits = torch.randn(rows, self._talker.vocab, device=DEVICE).bfloat16()
        at = torch.arange(rows, device=DEVICE)
        return milliseconds(lambda: sample(logits, at))


@torch.inference_mode()
def milliseconds(call: Callable[[], object]) -> float:
    """Return the milliseconds of one call in a captured graph: the median over several runs of consecutive replays."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        call()
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    times: list[float] = []
    for _ in range(_REPEATS + 1):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(_REPLAYS):
            graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / _REPLAYS)
    return statistics.median(times[1:])


def _logits(implementation: ResidualCodes, reference: Float32Reference) -> Tensor | None:
    """Return the logits [rows, books - 1, vocab], teacher-forced with the float32 codes; None if they are not kept."""
    rows = len(reference.codes)
    if isinstance(implementation, PersistentCodes):
        implementation(**reference.inputs(torch.bfloat16))
        return implementation.logits[:rows]
    if isinstance(implementation, BatchedCodes):
        implementation(**reference.inputs(torch.bfloat16))
        return implementation.logits(rows).transpose(0, 1)
    if isinstance(implementation, TritonCodes):
        implementation(**reference.inputs(torch.bfloat16))
        return implementation.logits[:, :rows].transpose(0, 1)
    return None


def _print(name: str, times: dict[int, float], rows: Sequence[int]) -> None:
    print(
        f"{name:20s}" + "".join(f"{times[each]:9.3f}" if each in times else f"{'-':>9s}" for each in rows), flush=True
    )


if __name__ == "__main__":
    main()
