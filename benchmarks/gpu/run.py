"""Runs all GPU tests and benchmarks: tests, timings of each stage, and servers under load.

    python -m benchmarks.gpu.run OUT [--part NAME]... [--checkpoints FOLDER] [--minutes 4]

Writes the output of each part to OUT/NAME.txt, and its results to OUT/NAME.json. If a part fails or times out, or its
checkpoint cannot be written, the other parts still run. The last lines list the result of each part, and the exit
status is 1 if any part failed. Parts that need more GPUs than available are skipped, with a message. Full-size random
checkpoints are written to FOLDER if they do not exist (5 GB and 3 GB each).
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from string import Formatter
from typing import NamedTuple

import torch

from benchmarks.lib.serving import ROOT

_CONFIG = "--config configs/h200-1.7b.yaml --json {json}"
_SERVE = f"benchmarks.http.serve {_CONFIG} --frames text"
_SOME_LOADS = "--voice ryan -c 1 -c 64 -c 256 --rate 20"
_LOADS = 4
"""Time limit of a mixed load, as a multiple of its length: the load itself, and three times that for checking it."""
_MIXED = f"benchmarks.mixed.run {_CONFIG} --model {{both}} --minutes {{minutes}}"


class Part(NamedTuple):
    """A part of the run.

    command: the words after ``python -m``. Names of ``_CHECKPOINTS`` in braces are replaced by their folders.
    seconds: timeout, in addition to ``loads`` times the length of a mixed load.
    environment: additional environment variables. gpus: number of GPUs needed.
    """

    command: str
    seconds: float
    environment: Mapping[str, str] = {}
    gpus: int = 1
    loads: int = 0


_PROCESS = {"SONANT_ENGINE__CODE2WAV__PLACEMENT": "process"}
PARTS = {
    "tests": Part("pytest -q -p no:cacheprovider tests/gpu", 300, {"TEST_DEVICE": "cuda"}),
    "tests-vllm": Part(
        "pytest -q -p no:cacheprovider tests/vllm",
        400,
        {"TEST_DEVICE": "cuda", "TRITON_F32_DEFAULT": "ieee"},  # avoids TF32 (10 bits) in its attention
    ),
    "parity": Part(
        "pytest -q -p no:cacheprovider tests/parity tests/unit/test_native_talker.py", 400, {"TEST_DEVICE": "cuda"}
    ),
    "step": Part("benchmarks.gpu.step {named} --parts --first --json {json}", 300),
    "step-0.6b": Part("benchmarks.gpu.step {named06} --parts --first --json {json}", 300),
    "step-reproducible": Part("benchmarks.gpu.step {named} --reproducible --rows 1,256 --first --json {json}", 300),
    "step-fp8": Part(
        "benchmarks.gpu.step {named} --fp8 --slots 256 --rows 1,8,16,32 --parts --first --json {json}", 300
    ),
    "host": Part("benchmarks.gpu.host {named} --json {json}", 200),
    "predictor": Part("benchmarks.gpu.code_predictor {named} --cublas all --plain --errors", 250),
    "talker-layers": Part("benchmarks.gpu.talker_layers --errors", 100),
    "predictor-errors": Part("benchmarks.gpu.predictor_errors", 100),
    "code2wav": Part("benchmarks.gpu.code2wav {clones} --errors", 300),
    "references": Part("benchmarks.gpu.references {clones}", 200),
    "serve": Part(f"{_SERVE} --model {{named}} --voice ryan --plan gpu", 500),
    "start": Part("benchmarks.gpu.start {named} --json {json}", 400),
    "engine-alone": Part("benchmarks.gpu.engine_alone {named} --json {json}", 300),
    "overload": Part(f"{_SERVE} --model {{named}} --voice ryan --rate 100 --rate 200 --rate 300 --rate 400", 300),
    "serve-0.6b": Part(f"{_SERVE} --model {{named06}} {_SOME_LOADS}", 300),
    "serve-fp8": Part(
        f"{_SERVE} --model {{named}} --voice ryan -c 1 -c 8 --rate 20",
        300,
        {"SONANT_ENGINE__TALKER__VLLM__FP8_PREDICTOR": "true"},
    ),
    "serve-process": Part(f"{_SERVE} --model {{named}} {_SOME_LOADS}", 300, _PROCESS),
    "serve-process-mps": Part(f"benchmarks.lib.mps {_SERVE} --model {{named}} {_SOME_LOADS}", 300, _PROCESS),
    "serve-other-gpu": Part(
        f"{_SERVE} --model {{named}} {_SOME_LOADS}", 300, _PROCESS | {"SONANT_ENGINE__CODE2WAV__GPU": "1"}, gpus=2
    ),
    "engines": Part(
        "benchmarks.http.engines --model {named} --rounds 6 --clients 8 --voice ryan --voice vivian --voice serena "
        "--voice aiden --json {json}",
        500,
        gpus=2,
    ),
    "tight": Part(
        f"{_SERVE} --model {{named}} --voice ryan -c 256 --all-answered", 300, {"SONANT_ENGINE__GPU_MEMORY_GIB": "24"}
    ),
    "clone": Part(f"{_SERVE} --model {{clones}} --piece clone", 200),
    "clone-0.6b": Part(f"{_SERVE} --model {{clones06}} --piece clone", 200),
    "capacity": Part(
        f"{_SERVE} --model {{named}} --voice ryan --piece capacity --first 900 --most 2000",
        400,
        {
            "SONANT_ENGINE__TALKER__SLOTS": "512",
            "SONANT_ENGINE__CODE2WAV__STREAMS": "1024",
            "SONANT_LIMITS__MAX_RUNNING": "1024",
        },
    ),
    "mixed": Part(_MIXED, 900, loads=_LOADS),
    "mixed-reproducible": Part(f"{_MIXED} --reproducible", 900, loads=_LOADS),
}
"""The parts, in the order in which they run."""

_CHECKPOINTS = {
    "named": "1.7b-custom_voice",
    "clones": "1.7b-base",
    "both": "1.7b-both",
    "named06": "0.6b-custom_voice",
    "clones06": "0.6b-base",
}
"""Name -> size and kind of a checkpoint, see ``benchmarks.lib.fullsize``."""
_CHECKPOINT_TIMEOUT_S = 600.0


def main() -> None:
    """Run the selected parts in order, and print the result of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--part", action="append", choices=PARTS, help="may be repeated; default all parts")
    parser.add_argument("--checkpoints", type=Path, help="default OUT/checkpoints")
    parser.add_argument("--minutes", type=float, default=4, help="length of each mixed load")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    failed, summary, gpus = False, [""], torch.cuda.device_count()
    for name in args.part or PARTS:
        part, began = PARTS[name], time.monotonic()
        if part.gpus > max(1, gpus):
            summary.append(f"{name}: skipped, needs {part.gpus} GPUs, found {gpus}")
            print(summary[-1], flush=True)
            continue
        code = run_part(name, part, args.out, args.checkpoints or args.out / "checkpoints", args.minutes)
        failed = failed or code != 0
        summary.append(f"{name}: {f'FAILED ({code})' if code else 'done'} after {time.monotonic() - began:.0f} s")
    print("\n".join(summary))
    raise SystemExit(failed)


def run_part(name: str, part: Part, out: Path, checkpoints: Path, minutes: float) -> int:
    """Write the checkpoints that a part needs, and run it. Return 0, or the exit status of what failed."""
    values = {"json": str(out / f"{name}.json"), "minutes": str(minutes)}
    for checkpoint in (field for _, field, _, _ in Formatter().parse(part.command) if field in _CHECKPOINTS):
        kind = _CHECKPOINTS[checkpoint]
        values[checkpoint] = str(checkpoints / kind)
        if (checkpoints / kind / "config.json").exists():  # written last: the checkpoint is complete
            continue
        command = ["benchmarks.lib.checkpoints", f"full-size-{kind}", values[checkpoint]]
        if code := run(command, out / f"{name}.txt", _CHECKPOINT_TIMEOUT_S):
            return code
    command = part.command.format_map(values).split()
    print(f"== {name}: python -m {' '.join(command)}", flush=True)
    return run(command, out / f"{name}.txt", part.seconds + 60 * minutes * part.loads, part.environment)


def run(command: list[str], log: Path, seconds: float, environment: Mapping[str, str] = {}) -> int:
    """Run a module, with its output printed and copied to ``log``. Return its exit status, negative for a signal.

    seconds: timeout, after which it is terminated. environment: additional environment variables.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    signals = ((signal.SIGTERM, seconds), (signal.SIGKILL, seconds + 30))
    timers = [threading.Timer(after, os.killpg, (process.pid, number)) for number, after in signals]
    for timer in timers:
        timer.start()
    assert process.stdout is not None
    with log.open("w") as file, process.stdout as output:
        for line in output:
            print(line, end="", flush=True)
            file.write(line)
    code = process.wait()
    for timer in timers:
        timer.cancel()
    return code


if __name__ == "__main__":
    main()
