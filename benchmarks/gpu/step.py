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
_ALONE = 20
_SETTLING = 8
_FEW = 12
_LONG = 400


class Crowd:
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
        return sum(output.codes is not None for output in self._talker.step(()))

    def finish(self) -> None:
        """Run steps until all utterances have ended."""
        while self._talker.runnable(()):
            self._talker.step(())

    def leave(self) -> None:
        """Cancel all utterances."""
        for stream in list(self._talker._utterances):
            self._talker.cancel(stream)
        self.finish()

    @property
    def positions(self) -> float:
        """Mean number of cached positions per utterance."""
        return statistics.fmean(request.num_computed_tokens for request in self._talker._requests.values())


def step_times(crowd: Crowd, rows: int, frames: int) -> tuple[list[float], float]:
    """Return the milliseconds of each step in which all rows generate a frame, and the mean positions per row."""
    crowd.admit(rows, frames)
    while crowd.step() < rows:
        pass
    for _ in range(_SETTLING):
        crowd.step()
    positions, moments = crowd.positions, [time.perf_counter()]
    while crowd.step() == rows:
        moments.append(time.perf_counter())
    crowd.finish()
    return [1000 * float(each) for each in np.diff(moments)], positions + len(moments) / 2


def first_codes(crowd: Crowd, rows: int) -> tuple[float, float]:
    """Return the milliseconds from the arrival of ``rows`` prompts to the first codes of any, and of all."""
    began, first, got = time.perf_counter(), 0.0, 0
    crowd.admit(rows, 2)
    while got < rows:
        got += crowd.step()
        first = first or (time.perf_counter() - began if got else 0.0)
    last = time.perf_counter() - began
    crowd.finish()
    return 1000 * first, 1000 * last


def parts_of(crowd: Crowd, pieces: Pieces, rows: int) -> dict[str, float | None]:
    """Return the times of the pieces on the GPU, and of the host, with ``rows`` utterances running."""
    crowd.admit(rows, _LONG)
    while crowd.step() < rows:
        pass
    for _ in range(_SETTLING):
        crowd.step()
    torch.cuda.synchronize()
    found = pieces.milliseconds(rows)
    with no_gpu_work():
        times = []
        for _ in range(_FEW):
            began = time.perf_counter()
            crowd.step()
            times.append(1000 * (time.perf_counter() - began))
    crowd.leave()
    return found | {"host": statistics.median(times[2:])}


def floors(checkpoint: Checkpoint, rows: int, positions: float, itemsize: int) -> dict[str, Floor]:
    """Return the floor of each part."""
    talker, shapes = checkpoint.model.talker, model_shapes(checkpoint.model)
    return {
        "layers": layers_floor(talker, shapes, rows, positions, itemsize),
        "first code": first_code_floor(shapes, rows, itemsize),
        "predictor": predictor_floor(talker, shapes, rows, itemsize),
    }


def measured(crowd: Crowd, checkpoint: Checkpoint, pieces: Pieces | None, rows: int, given: Any) -> dict[str, Any]:
    """Run all measurements with ``rows`` utterances."""
    crowd.admit(rows, _FEW)
    crowd.finish()
    times, positions = step_times(crowd, rows, given.frames)
    least = floors(checkpoint, rows, positions, given.itemsize)
    limits = (1e12 * given.bandwidth, 1e15 * given.products)
    whole = sum(least.values(), Floor(0, 0)).milliseconds(*limits)
    found: dict[str, Any] = {
        "rows": rows,
        "step": statistics.median(times),
        "step_p95": float(np.percentile(times, 95)),
        "positions": positions,
        "floor": whole,
        "floors": {name: each.milliseconds(*limits) for name, each in least.items()},
    }
    if pieces is not None:
        found["parts"] = parts_of(crowd, pieces, rows)
    if given.first:
        alone = sorted(first_codes(crowd, 1)[0] for _ in range(_ALONE)) if rows == 1 else []
        first, last = first_codes(crowd, rows)
        found["first"] = {"any": first, "all": last, "alone": alone}
    return found


def line(found: dict[str, Any]) -> str:
    """Return the results for one number of rows as text."""
    told = [f"{found['rows']:4d} rows: step {found['step']:6.2f} (p95 {found['step_p95']:6.2f})"]
    told.append(f"floor {found['floor']:5.2f} ({found['floor'] / found['step']:4.0%})")
    for name, taken in found.get("parts", {}).items():
        if taken is None:
            continue
        floor = found["floors"].get(name)
        told.append(f"{name} {taken:.2f}" + (f" ({floor / taken:.0%})" if floor else ""))
    if first := found.get("first"):
        told.append(f"first codes {first['any']:.1f}, of all {first['all']:.1f}")
        if first["alone"]:
            told.append(f"one at a time {statistics.median(first['alone']):.1f}, worst {first['alone'][-1]:.1f}")
    return ", ".join(told)


def main() -> None:
    """Load the talker, measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--rows", type=_numbers, default=ROWS, help="how many at once, such as 1,32,128")
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--slots", type=int, help="of the talker; when unset as many as the most rows")
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--reproducible", action="store_true", help="talker.vllm.reproducible")
    parser.add_argument("--fp8", action="store_true", help="talker.vllm.fp8_predictor")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--bandwidth", type=float, default=4.8, help="of the GPU's memory, TB/s")
    parser.add_argument("--products", type=float, default=0.99, help="of its tensor cores, PFLOP/s")
    parser.add_argument("--json", type=Path, help="a file for every figure")
    given = parser.parse_args()
    slots = given.slots or max(given.rows)
    on_vllm = VllmConfig(reproducible=given.reproducible, fp8_predictor=given.fp8)
    talking = TalkerConfig(engine="vllm", slots=slots, context=given.context, vllm=on_vllm)
    config = EngineConfig(model=given.folder, device="cuda", dtype=given.dtype, talker=talking)
    prepare_torch(config)
    checkpoint, device = open_checkpoint(given.folder), torch.device("cuda")
    given.itemsize = choose_dtype(config, device).itemsize
    began = time.perf_counter()
    talker = load_vllm_talker(checkpoint, config.talker, device, choose_dtype(config, device))
    loaded = time.perf_counter() - began
    memory = torch.cuda.memory_reserved() / 2**30
    print(f"{torch.cuda.get_device_name()}, {slots} slots, loaded in {loaded:.1f} s, {memory:.1f} GiB", flush=True)
    crowd = Crowd(talker, checkpoint)
    pieces = Pieces(talker) if given.parts else None
    found = []
    for rows in given.rows:
        found.append(measured(crowd, checkpoint, pieces, rows, given))
        print(line(found[-1]), flush=True)
        if given.json:
            report = {"loaded_seconds": loaded, "reserved_gib": memory, "slots": slots, "rows": found}
            given.json.write_text(json.dumps(report, indent=1) + "\n")
    talker.close()


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(","))


if __name__ == "__main__":
    main()
