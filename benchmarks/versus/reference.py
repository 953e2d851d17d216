"""Compares this engine with the official reference implementation on this machine's CPU.

python benchmarks/versus/reference.py [--threads 1,2] [--rounds 3] [--only small,full,code2wav] [-o FILE.json]

Each model is loaded in its own process. The processes are timed in turn (A B A B), so that other load on the machine
affects all of them equally. The first run creates an environment for the reference and a random full-size checkpoint
in .benchmark/ (4 GB, or more if torch includes CUDA). The full-size models together need 20 GB of memory. The whole
comparison takes six minutes on two cores.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.lib import report  # noqa: E402
from benchmarks.lib.report import Contender, Result  # noqa: E402
from benchmarks.versus.reference_env import reference_python  # noqa: E402
from benchmarks.versus.turns import Job, Runner  # noqa: E402

WORK = ROOT / ".benchmark"
UTTERANCE = {"text": "The quick brown fox jumps over the lazy dog.", "speaker": "ryan", "language": "english"}
ENGINE, REFERENCE = "benchmarks.versus.engine_runner", "benchmarks.versus.reference_runner"


def small(frames: int) -> list[Contender]:
    """Return the contenders on the small checkpoint. It shows the overhead per frame: its arithmetic is negligible."""
    job = Job("", checkpoint("1b7-custom_voice"), 0, frames=frames, **UTTERANCE)
    return [
        Contender("Sonant talker", ENGINE, replace(job, kind="talker")),
        Contender("Sonant engine", ENGINE, replace(job, kind="engine")),
        Contender("reference fp32", REFERENCE, replace(job, kind="reference")),
    ]


def full(frames: int) -> list[Contender]:
    """Return the contenders on random weights of the 0.6B model's size. Only the frame limit ends its utterances."""
    job = Job("", checkpoint("full-size"), 0, frames=frames, **UTTERANCE)
    return [
        Contender("Sonant talker", ENGINE, replace(job, kind="talker")),
        Contender("Sonant talker int8", ENGINE, replace(job, kind="talker", weights="int8")),
        Contender("Sonant talker int4", ENGINE, replace(job, kind="talker", weights="int4")),
        Contender("Sonant engine", ENGINE, replace(job, kind="engine")),
        Contender("Sonant engine int8", ENGINE, replace(job, kind="engine", weights="int8")),
        Contender("Sonant engine int4", ENGINE, replace(job, kind="engine", weights="int4")),
        Contender("reference fp32", REFERENCE, replace(job, kind="reference")),
        Contender("reference bf16", REFERENCE, replace(job, kind="reference", dtype="bfloat16")),
    ]


def code2wav() -> list[Contender]:
    """Return the contenders on the full-size codec decoder, in fp32 (its bf16 convolutions are slower on CPUs)."""
    job = Job("code2wav", checkpoint("full-size"), 0)
    return [Contender("Sonant Code2Wav", ENGINE, job), Contender("reference fp32", REFERENCE, job)]


def checkpoint(name: str) -> str:
    """Return the folder of a random checkpoint, which is written if it is missing.

    Another process writes it, and this process never imports torch, because the peak memory of a child process
    includes that of its parent before exec.
    """
    folder = str(WORK / "models" / name)
    subprocess.run(
        [sys.executable, "-m", "benchmarks.lib.checkpoints", name, folder], cwd=ROOT, check=True, timeout=600
    )
    return folder


def time_contenders(contenders: list[Contender], threads: int, rounds: int, reference: str) -> list[Result]:
    """Time all contenders with ``threads`` threads each. They take turns, ``rounds`` times."""
    with contextlib.ExitStack() as stack:
        runners = []
        for contender in contenders:
            python = reference if contender.module == REFERENCE else sys.executable
            log = WORK / f"{contender.name.replace(' ', '-')}.log"
            runner = Runner(python, contender.module, replace(contender.job, threads=threads), log)
            stack.callback(runner.kill)
            runners.append(runner)
            runner.wait_ready()
        results = [Result(contender.name, threads) for contender in contenders]
        for _ in range(rounds):
            for result, runner in zip(results, runners, strict=True):
                result.add(runner.turn())
        for result, runner in zip(results, runners, strict=True):
            result.peak_bytes = runner.finish()
    return results


def main() -> None:
    """Measure, print the tables, and fail if the codes of engine and reference differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--threads", default="1,2", help="numbers of torch threads to try; the best of each contender counts (1,2)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="turns of each process (3)")
    parser.add_argument("--small-frames", type=int, default=50, help="frames of the small checkpoint's utterance (50)")
    parser.add_argument("--full-frames", type=int, default=12, help="frames of the full-size utterance (12)")
    parser.add_argument("--only", default="small,full,code2wav", help="which comparisons (small,full,code2wav)")
    parser.add_argument("-o", "--output", type=Path, help="also write every measurement to this JSON file")
    options = parser.parse_args()
    names = options.only.split(",")
    if unknown := set(names) - {"small", "full", "code2wav"}:
        parser.error(f"--only must be some of small, full and code2wav, got {', '.join(sorted(unknown))}")

    WORK.mkdir(exist_ok=True)
    reference = reference_python(WORK / "reference")
    makers = {
        "small": lambda: small(options.small_frames),
        "full": lambda: full(options.full_frames),
        "code2wav": code2wav,
    }
    machine = report.machine()
    print(report.machine_line(machine))
    comparisons: dict[str, list[Result]] = {}
    for name in names:
        contenders = makers[name]()
        results = [
            result
            for threads in map(int, options.threads.split(","))
            for result in time_contenders(contenders, threads, options.rounds, reference)
        ]
        comparisons[name] = results
        print(report.table(name, results), flush=True)
    if options.output:
        report.write(options.output, machine, comparisons)
    if not report.same_codes(comparisons.get("small", [])):
        raise SystemExit("the engine and the reference generated different codes for the small checkpoint")


if __name__ == "__main__":
    main()
