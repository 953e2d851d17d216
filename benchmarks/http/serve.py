"""Benchmarks a whole deployment: startup time, loads over HTTP, and GPU utilization.

    python -m benchmarks.http.serve [--config FILE] [--model FOLDER] [--piece NAME] [--json FILE] [options of sonant
    bench]

Starts ``sonant serve`` with the configuration on a free port and runs ``sonant bench`` against it, with the loads in
the options, or ``--plan gpu`` without any. ``--piece`` selects parts of the plan, which take less than four minutes
each:

- alone: one request after the other; open: 1, 6, 10, 20 and 40 per second; closed: 8, 32, 64, 128 and 256 at once
- clone: a stored voice of a synthetic recording, cloned in context, one at a time and 20 per second
- capacity: how many real-time clients the server sustains (``benchmarks.http.capacity``)

Also prints how the engine divides the GPU memory, if its log says so. With ``--all-answered`` the exit status is 1
unless every request is completely answered with speech.

Checkpoints of ``benchmarks.lib.fullsize`` never end an utterance, smaller random ones end it at random: ``--frames
text`` limits each to a length estimated from its text. To run the same plan against any server that is already running:

    sonant bench --plan gpu --frames text -s http://127.0.0.1:8091 --voice ryan --body '{"stream_format": "audio"}'
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.http import capacity
from benchmarks.lib.gpu_watch import GpuWatch, watch_gpus
from benchmarks.lib.recording import TRANSCRIPT, write_recording
from benchmarks.lib.report import machine
from benchmarks.lib.serving import ROOT, running_server

_LOADS = ("--plan", "--rate", "-c", "--concurrency", "--listeners")
_CLONE = "bench-clone"
_PIECES = {
    "alone": "-c 1 -n 40",
    "open": "--rate 1 --rate 6 --rate 10 --rate 20 --rate 40",
    "closed": "-c 8 -c 32 -c 64 -c 128 -c 256",
    "clone": "-c 1 --rate 20",
    "capacity": "",
}


def main() -> None:
    """Start the server, run the pieces and report the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "pocket.yaml")
    parser.add_argument("--model", help="a checkpoint folder or hub name that replaces the model of the configuration")
    parser.add_argument("--piece", action="append", choices=_PIECES, help="part of the plan; may be repeated")
    parser.add_argument(
        "--voice", action="append", default=[], help="voice of every piece except clone; may be repeated"
    )
    parser.add_argument("--all-answered", action="store_true", help="exit with status 1 if a request fails")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    capacity.add_options(parser)
    args, bench_options = parser.parse_known_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # exit through the context managers, which stop the server
    flags = ["--model", args.model] if args.model else []
    print("{cpu}, {cores} cores; Python {python}, torch {torch}".format(**machine()), flush=True)
    with tempfile.TemporaryDirectory() as folder, watch_gpus() as gpus:
        os.environ["SONANT_VOICES__FOLDER"] = str(Path(folder, "voices"))
        log = Path(folder, "log")
        with running_server(args.config, log, *flags) as (address, seconds):
            memory = gpu_memory_line(log.read_text())
            print("\n".join([f"start to ready {seconds:.1f} s", *memory]), flush=True)
            report = {"config": args.config.name, "machine": machine(), "start_to_ready_seconds": round(seconds, 2)}
            report |= {"gpu_memory": memory, "loads": []}
            for piece in args.piece or [None]:
                measure(piece, address, args, bench_options, report, gpus)
                if args.json:
                    args.json.write_text(json.dumps(report, indent=1) + "\n")
    if args.all_answered and (incomplete := incomplete_loads(report["loads"])):
        raise SystemExit(f"some requests failed: {incomplete}")


def gpu_memory_line(log: str) -> list[str]:
    """Return the line of a server's log about GPU memory, if any."""
    return re.findall(r"GPU memory: [^\n\"]*", log)[:1]


def incomplete_loads(loads: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Return the outcomes of each load in which not all requests were completely answered with speech."""
    return {load["load"]: load["outcomes"] for load in loads if set(load["outcomes"]) != {"ok"}}


def measure(
    piece: str | None,
    address: str,
    args: argparse.Namespace,
    bench_options: list[str],
    report: dict[str, Any],
    gpus: GpuWatch,
) -> None:
    """Run one piece, or the loads of the options. Add the results to ``report`` and print them."""
    voices = [word for voice in args.voice for word in ("--voice", voice)]
    if piece == "capacity":
        report["capacity"] = capacity.search(address, args, [*voices, *bench_options])
        return
    if piece == "clone":
        store_clone(address)
        voices = ["--voice", _CLONE]
    loads = _PIECES[piece].split() if piece else []
    if not piece and not any(option.partition("=")[0] in _LOADS for option in bench_options):
        loads = ["--plan", "gpu"]
    for load in run_bench(address, [*loads, *voices, *bench_options]):
        load["gpus"] = gpus_during(load, gpus)
        report["loads"].append(load | {"piece": piece})
        for gpu, figures in load["gpus"].items():
            text = "{busy_percent} % busy, {busiest_percent} % at most, {memory_mib:,.0f} MiB, {power_watts} W"
            print(f"{load['load']}: GPU {gpu} " + text.format(**figures), flush=True)


def run_bench(address: str, bench_options: list[str]) -> list[dict[str, Any]]:
    """Run ``sonant bench`` against ``address`` and return the loads of its JSON report. Its output is not captured."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "bench.json")
        command = [
            sys.executable,
            "-m",
            "server.cli",
            "bench",
            "--server",
            address,
            "--json",
            str(file),
            *bench_options,
        ]
        process = subprocess.run(command, cwd=ROOT)
        if not file.exists():
            raise SystemExit(process.returncode or "sonant bench wrote no report")
        loads: list[dict[str, Any]] = json.loads(file.read_text())["loads"]
        return loads


def store_clone(address: str) -> None:
    """Store the voice that the clone piece uses."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "voice.wav")
        write_recording(file)
        command = [sys.executable, "-m", "server.cli", "voices", "add", _CLONE, str(file), "--ref-text", TRANSCRIPT]
        subprocess.run([*command, "--consent", "synthetic recording", "--server", address], cwd=ROOT, check=True)


def gpus_during(load: dict[str, Any], gpus: GpuWatch) -> dict[str, dict[str, float]]:
    """Return the utilization of each GPU while ``load`` ran."""
    return gpus.between(load["began"], load["began"] + load["wall_seconds"])


if __name__ == "__main__":
    main()
