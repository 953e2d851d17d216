"""A deployment from its start to its limits: start to ready, then a plan of loads over HTTP, and how busy the GPU was.

    python -m benchmarks.serve [--config FILE] [--model FOLDER] [--json FILE] [options of sonant bench]

Starts ``sonant serve`` with the configuration on a free port and lets ``sonant bench`` ask it, with ``--plan gpu``
unless the options say otherwise. Untrained weights end an utterance at random: ``--frames text`` cuts each to a length
that follows from its text. The same plan against a server that runs already, of whatever make:

    sonant bench --plan gpu --frames text -s http://127.0.0.1:8091 --voice ryan --body '{"stream_format": "audio"}'
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.gpu_watch import GpuWatch, watched
from benchmarks.report import machine
from benchmarks.serving import ROOT, served

_LOADS = ("--plan", "--rate", "-c", "--concurrency")


def main() -> None:
    """Start, measure, tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "pocket.yaml")
    parser.add_argument("--model", help="a checkpoint folder, or a hub name, in the place of the configuration's")
    parser.add_argument("--json", type=Path, help="a file for every figure")
    given, options = parser.parse_known_args()
    if not any(option.partition("=")[0] in _LOADS for option in options):
        options += ["--plan", "gpu"]
    flags = ["--model", given.model] if given.model else []
    print("{cpu}, {cores} cores; Python {python}, torch {torch}".format(**machine()), flush=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        watched() as gpus,
        served(given.config, Path(folder, "log"), *flags) as (address, seconds),
    ):
        print(f"start to ready {seconds:.1f} s", flush=True)
        report = asked(address, options, Path(folder, "bench.json"))
    report |= {"config": given.config.name, "machine": machine(), "start_to_ready_seconds": round(seconds, 2)}
    for load in report["loads"]:
        load["gpus"] = gpus_during(load, gpus)
        for gpu, figures in load["gpus"].items():
            told = "{busy_percent} % busy, {busiest_percent} at most, {memory_mib:,.0f} MiB, {power_watts} W"
            print(f"{load['load']}: GPU {gpu} " + told.format(**figures))
    if given.json:
        given.json.write_text(json.dumps(report, indent=1) + "\n")


def asked(address: str, options: list[str], file: Path) -> dict[str, Any]:
    """What ``sonant bench`` finds at ``address``; its tables go where ours go."""
    command = [sys.executable, "-m", "server.cli", "bench", "--server", address, "--json", str(file), *options]
    done = subprocess.run(command, cwd=ROOT)
    if not file.exists():
        raise SystemExit(done.returncode)
    report: dict[str, Any] = json.loads(file.read_text())
    return report


def gpus_during(load: dict[str, Any], gpus: GpuWatch) -> dict[str, dict[str, float]]:
    """GPU -> how busy it was while ``load`` ran."""
    return gpus.between(load["began"], load["began"] + load["wall_seconds"])


if __name__ == "__main__":
    main()
