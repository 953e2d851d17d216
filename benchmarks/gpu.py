"""Everything that is shown on a GPU, in one run: the tests it has, what each stage takes, and servers under load.

    python -m benchmarks.gpu OUT [--part NAME]... [--checkpoints FOLDER] [--minutes 4]

OUT gets the output of each part, NAME.txt, and its figures, NAME.json. A part that fails, or takes longer than it may,
does not keep the others from running; the last lines say which did, and the exit status is 1. Full-size random
checkpoints are made in FOLDER where they are not there yet (5 GB and 3 GB each).
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
from typing import NamedTuple

from benchmarks.serving import ROOT

_CONFIG = "--config configs/h200-1.7b.yaml --json {json}"
_SERVE = f"benchmarks.serve {_CONFIG} --frames text"
_SOME_LOADS = "--voice ryan -c 1 -c 64 -c 256 --rate 20"
_MIXED = f"benchmarks.gpu_mixed {_CONFIG} --model {{both}} --minutes {{minutes}}"


class Part(NamedTuple):
    """What is run: words after ``python -m``, with the names of ``_CHECKPOINTS`` for their folders.

    seconds: how long it may take. environment: what is in it besides.
    """

    command: str
    seconds: float
    environment: Mapping[str, str] = {}


PARTS = {
    "tests": Part("pytest -q -p no:cacheprovider tests/gpu", 300, {"TEST_DEVICE": "cuda"}),
    "tests-vllm": Part(
        "pytest -q -p no:cacheprovider tests/vllm",
        400,
        {"TEST_DEVICE": "cuda", "TRITON_F32_DEFAULT": "ieee"},  # else its attention rounds float32 to 10 bits
    ),
    "step": Part("benchmarks.gpu_step {named} --parts --first --json {json}", 300),
    "step-0.6b": Part("benchmarks.gpu_step {named06} --parts --first --json {json}", 300),
    "step-reproducible": Part("benchmarks.gpu_step {named} --reproducible --rows 1,256 --first --json {json}", 300),
    "predictor": Part("benchmarks.code_predictor {named} --cublas all --plain", 200),
    "code2wav": Part("benchmarks.gpu_code2wav {clones}", 200),
    "references": Part("benchmarks.gpu_references {clones}", 200),
    "serve": Part(f"{_SERVE} --model {{named}} --voice ryan --plan gpu", 500),
    "serve-0.6b": Part(f"{_SERVE} --model {{named06}} {_SOME_LOADS}", 300),
    "serve-process": Part(
        f"{_SERVE} --model {{named}} {_SOME_LOADS}", 300, {"SONANT_ENGINE__CODE2WAV__PLACEMENT": "process"}
    ),
    "clone": Part(f"{_SERVE} --model {{clones}} --piece clone", 200),
    "clone-0.6b": Part(f"{_SERVE} --model {{clones06}} --piece clone", 200),
    "held": Part(
        f"{_SERVE} --model {{named}} --voice ryan --piece held --first 400 --most 1400",
        400,
        {
            "SONANT_ENGINE__TALKER__SLOTS": "512",
            "SONANT_ENGINE__CODE2WAV__STREAMS": "1024",
            "SONANT_LIMITS__MAX_RUNNING": "1024",
        },
    ),
    "mixed": Part(_MIXED, 5000),
    "mixed-reproducible": Part(f"{_MIXED} --reproducible", 5000),
}
"""In the order in which they are run."""

_CHECKPOINTS = {
    "named": ("1.7b", "custom_voice"),
    "clones": ("1.7b", "base"),
    "both": ("1.7b", "both"),
    "named06": ("0.6b", "custom_voice"),
    "clones06": ("0.6b", "base"),
}
"""Name -> size and kind, see ``benchmarks.fullsize``."""


class Words(dict[str, str]):
    """What stands for the names in a part's command. A checkpoint in ``folder`` is made when it is first named."""

    def __init__(self, folder: Path, **known: str) -> None:
        super().__init__(known)
        self._folder = folder

    def __missing__(self, name: str) -> str:
        size, kind = _CHECKPOINTS[name]
        made = self._folder / f"{size}-{kind}"
        if not (made / "config.json").exists():
            command = [sys.executable, "-m", "benchmarks.fullsize", str(made), "--size", size, "--kind", kind]
            subprocess.run(command, cwd=ROOT, check=True)
        return str(made)


def main() -> None:
    """Run what was asked for, in order, and say what became of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--part", action="append", choices=PARTS, help="may be repeated; all when left out")
    parser.add_argument("--checkpoints", type=Path, help="when left out OUT/checkpoints")
    parser.add_argument("--minutes", type=float, default=4, help="of each mixed load")
    given = parser.parse_args()
    out: Path = given.out
    out.mkdir(parents=True, exist_ok=True)
    failed, told = False, [""]
    for name in given.part or PARTS:
        part, began = PARTS[name], time.monotonic()
        words = Words(given.checkpoints or out / "checkpoints", json=str(out / f"{name}.json"), minutes=given.minutes)
        command = part.command.format_map(words).split()
        print(f"== {name}: python -m {' '.join(command)}", flush=True)
        code = run(command, part, out / f"{name}.txt")
        failed = failed or code != 0
        told.append(f"{name}: {f'FAILED ({code})' if code else 'done'} after {time.monotonic() - began:.0f} s")
    print("\n".join(told))
    raise SystemExit(failed)


def run(command: list[str], part: Part, copy: Path) -> int:
    """Run a part with its output here and in ``copy``; its exit status, negative where a signal ended it."""
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env=os.environ | part.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    ends = ((signal.SIGTERM, part.seconds), (signal.SIGKILL, part.seconds + 30))
    timers = [threading.Timer(seconds, os.killpg, (process.pid, number)) for number, seconds in ends]
    for timer in timers:
        timer.start()
    assert process.stdout is not None
    with copy.open("w") as file, process.stdout as output:
        for line in output:
            print(line, end="", flush=True)
            file.write(line)
    code = process.wait()
    for timer in timers:
        timer.cancel()
    return code


if __name__ == "__main__":
    main()
