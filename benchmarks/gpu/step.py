"""Measures a step of the talker on vLLM and its parts, and compares it with a lower bound (floor).

    python -m benchmarks.gpu.step FOLDER [--rows 1,32,128] [--parts] [--first] [--reproducible] [--fp8] [--json FILE]

Runs in this process, on its GPU. FOLDER is a checkpoint with named voices (``benchmarks.lib.fullsize``). Utterances
that start together each generate ``--frames`` frames. Prints for each number of utterances (rows), in milliseconds:

- step: wall-clock time from one step to the next, without prefill steps; median and 95th percentile;
- floor: the time to read all weights and all cached positions that a step needs, or to compute its matrix products,
  whichever is longer, with the data sheet's bandwidth (``--bandwidth``, TB/s) and throughput (``--products``,
  PFLOP/s);
- with ``--parts``: GPU time of the talker's layers, the first code, the code predictor and the next input rows, each
  replayed alone as a captured graph between two events, and its floor as a share of that time; host: CPU time of a
  step in which no graph is replayed. It is hidden as long as it is shorter than the GPU's work;
- with ``--first``: time from a prompt's arrival to its first codes, for one at a time and for that many at once.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.floor import Floor, first_code_floor, layers_floor, predictor_floor
from benchmarks.gpu.pieces import Pieces, no_gpu_work
from engine.checkpoint.folder import Checkpoint, open_checkpoint
from engine.checkpoint.layout import model_shapes
from engine.config import EngineConfig, TalkerConfig, VllmConfig
from engine.device.selection import choose_dtype, prepare_torch
from engine.prompt.builder import build_prompt
from engine.protocol.request import SamplingParams, SpeechRequest
from engine.talker.requests import resolve
from engine.talker.vllm.talker import VllmTalker, load_vllm_talker
from server.bench.workload import SENTENCES

ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_SINGLE_REPEATS = 20
_WARM_UP_STEPS = 8
_HOST_STEPS = 12
_LONG_FRAMES = 400


class Utterances:
    """Runs utterances that start together on an otherwise idle talker."""

    def __init__(self, talker: VllmTalker, checkpoint: Checkpoint) -> None:
        self._talker, self._checkpoint = talker, checkpoint
        self._speakers = list(checkpoint.model.talker.speakers)
        self._admitted = 0

    def admit(self, rows: int, frames: int) -> None:
        """Admit ``rows`` utterances of ``frames`` frames each."""
        checkpoint = self._checkpoint
        for _ in range(rows):
            self._admitted += 1
            number = self._admitted
            request = SpeechRequest(
                SENTENCES[number % len(SENTENCES)],
                speaker=self._speakers[number // len(SENTENCES) % len(self._speakers)],
                language="english",
                sampling=SamplingParams(seed=number, max_new_tokens=frames + 1),
            )
            prompt = build_prompt(request, checkpoint.model, checkpoint.tokenizer)
            self._talker.admit(number, prompt, resolve(request.sampling, checkpoint.generation))

    def step(self) -> int:
        """Run one step. Return the number of frames it returned."""
        return len(self._talker.step(()).streams)

    def finish(self) -> None:
        """Run steps until all utterances have ended."""
        while self._talker.runnable(()):
            self._talker.step(())

    def cancel_all(self) -> None:
        """Cancel all utterances."""
        for number in range(self._admitted + 1):
            self._talker.cancel(number)
        self.finish()

    @property
    def positions(self) -> float:
        """Mean number of cached positions per utterance."""
        return float(self._talker._scheduler.positions.mean())


def step_times(utterances: Utterances, rows: int, frames: int) -> tuple[list[float], float]:
    """Return the milliseconds of each step in which all rows generate a frame, and the mean positions per row."""
    utterances.admit(rows, frames)
    while utterances.step() < rows:
        pass
    for _ in range(_WARM_UP_STEPS):
        utterances.step()
    positions, moments = utterances.positions, [time.perf_counter()]
    while utterances.step() == rows:
        moments.append(time.perf_counter())
    utterances.finish()
    return [1000 * float(each) for each in np.diff(moments)], positions + len(moments) / 2


def first_codes(utterances: Utterances, rows: int) -> tuple[float, float]:
    """Return the milliseconds from the arrival of ``rows`` prompts to the first codes of any, and of all."""
    began, first, frames = time.perf_counter(), 0.0, 0
    utterances.admit(rows, 2)
    while frames < rows:
        frames += utterances.step()
        first = first or (time.perf_counter() - began if frames else 0.0)
    last = time.perf_counter() - began
    utterances.finish()
    return 1000 * first, 1000 * last


def parts_of(utterances: Utterances, pieces: Pieces, rows: int) -> dict[str, float | None]:
    """Return the times of the pieces on the GPU, and of the host, with ``rows`` utterances running."""
    utterances.admit(rows, _LONG_FRAMES)
    while utterances.step() < rows:
        pass
    for _ in range(_WARM_UP_STEPS):
        utterances.step()
    torch.cuda.synchronize()
    result = pieces.milliseconds(rows)
    with no_gpu_work():
        times = []
        for _ in range(_HOST_STEPS):
            began = time.perf_counter()
            utterances.step()
            times.append(1000 * (time.perf_counter() - began))
    utterances.cancel_all()
    return result | {"host": statistics.median(times[2:])}


def floors(checkpoint: Checkpoint, rows: int, positions: float, itemsize: int) -> dict[str, Floor]:
    """Return the floor of each part."""
    talker, shapes = checkpoint.model.talker, model_shapes(checkpoint.model)
    return {
        "layers": layers_floor(talker, shapes, rows, positions, itemsize),
        "first code": first_code_floor(shapes, rows, itemsize),
        "predictor": predictor_floor(talker, shapes, rows, itemsize),
    }


def measure(
    utterances: Utterances, checkpoint: Checkpoint, pieces: Pieces | None, rows: int, args: Any
) -> dict[str, Any]:
    """Run all measurements with ``rows`` utterances."""
    utterances.admit(rows, _HOST_STEPS)
    utterances.finish()
    times, positions = step_times(utterances, rows, args.frames)
    floors_by_part = floors(checkpoint, rows, positions, args.itemsize)
    limits = (1e12 * args.bandwidth, 1e15 * args.products)
    floor_ms = sum(floors_by_part.values(), Floor(0, 0)).milliseconds(*limits)
    result: dict[str, Any] = {
        "rows": rows,
        "step": statistics.median(times),
        "step_p95": float(np.percentile(times, 95)),
        "positions": positions,
        "floor": floor_ms,
        "floors": {name: each.milliseconds(*limits) for name, each in floors_by_part.items()},
    }
    if pieces is not None:
        result["parts"] = parts_of(utterances, pieces, rows)
    if args.first:
        single = sorted(first_codes(utterances, 1)[0] for _ in range(_SINGLE_REPEATS)) if rows == 1 else []
        first, last = first_codes(utterances, rows)
        result["first"] = {"any": first, "all": last, "single": single}
    return result


def result_line(result: dict[str, Any]) -> str:
    """Return the results for one number of rows as text."""
    texts = [f"{result['rows']:4d} rows: step {result['step']:6.2f} (p95 {result['step_p95']:6.2f})"]
    texts.append(f"floor {result['floor']:5.2f} ({result['floor'] / result['step']:4.0%})")
    for name, milliseconds in result.get("parts", {}).items():
        if milliseconds is None:
            continue
        floor = result["floors"].get(name)
        texts.append(f"{name} {milliseconds:.2f}" + (f" ({floor / milliseconds:.0%})" if floor else ""))
    if first := result.get("first"):
        texts.append(f"first codes {first['any']:.1f}, of all {first['all']:.1f}")
        if first["single"]:
            texts.append(f"one at a time {statistics.median(first['single']):.1f}, worst {first['single'][-1]:.1f}")
    return ", ".join(texts)


def main() -> None:
    """Load the talker, measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument(
        "--rows", type=_numbers, default=ROWS, help="numbers of concurrent utterances, such as 1,32,128"
    )
    parser.add_argument("--frames", type=int, default=60, help="frames of each utterance")
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--slots", type=int, help="slots of the talker; default the largest number of rows")
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--reproducible", action="store_true", help="talker.vllm.reproducible")
    parser.add_argument("--fp8", action="store_true", help="talker.vllm.fp8_predictor")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--bandwidth", type=float, default=4.8, help="memory bandwidth of the GPU, TB/s")
    parser.add_argument("--products", type=float, default=0.99, help="throughput of its tensor cores, PFLOP/s")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    args = parser.parse_args()
    slots = args.slots or max(args.rows)
    vllm = VllmConfig(reproducible=args.reproducible, fp8_predictor=args.fp8)
    talker_config = TalkerConfig(engine="vllm", slots=slots, context=args.context, vllm=vllm)
    config = EngineConfig(model=args.folder, device="cuda", dtype=args.dtype, talker=talker_config)
    prepare_torch(config)
    checkpoint, device = open_checkpoint(args.folder), torch.device("cuda")
    args.itemsize = choose_dtype(config, device).itemsize
    began = time.perf_counter()
    talker = load_vllm_talker(checkpoint, config.talker, device, choose_dtype(config, device))
    loaded = time.perf_counter() - began
    memory = torch.cuda.memory_reserved() / 2**30
    print(f"{torch.cuda.get_device_name()}, {slots} slots, loaded in {loaded:.1f} s, {memory:.1f} GiB", flush=True)
    utterances = Utterances(talker, checkpoint)
    pieces = Pieces(talker) if args.parts else None
    results = []
    for rows in args.rows:
        results.append(measure(utterances, checkpoint, pieces, rows, args))
        print(result_line(results[-1]), flush=True)
        if args.json:
            report = {"loaded_seconds": loaded, "reserved_gib": memory, "slots": slots, "rows": results}
            args.json.write_text(json.dumps(report, indent=1) + "\n")
    talker.close()


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(","))


if __name__ == "__main__":
    main()
