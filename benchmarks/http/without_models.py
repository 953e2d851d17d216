"""Measures a server under load whose models take a fixed time: the cost of everything else, without a GPU.

    python -m benchmarks.http.without_models [--step-ms 11] [--batch-ms 4] [--slots 256] [--load OPTIONS]

The server runs with ``benchmarks/lib/stand_in_engine.py`` in place of both models: a step of the talker takes
``--step-ms``, a batch of Code2Wav ``--batch-ms``, whatever their sizes. The defaults are about those of the 1.7B size
with 256 clients on an H100. Runs ``sonant bench --frames text`` with each ``--load``. Prints for each the time to the
first chunk (median, 95th percentile), seconds of audio per second, underruns, and the CPU time of the HTTP process and
of the engine's stages as a share of one core.
"""

from __future__ import annotations

import argparse
import os

from benchmarks.http.request_cost import cpu_seconds, stand_in_server
from benchmarks.http.serve import run_bench
from benchmarks.lib.processes import Processes
from benchmarks.lib.report import machine
from benchmarks.lib.stand_in_engine import BATCH_MS, LAUNCHES, STEP_MS, SWITCH_MS


def measure(address: str, server: Processes, loads: list[str]) -> None:
    """Run the loads, each given as options of ``sonant bench``, and print a line for each."""
    for load in loads:
        before = cpu_seconds(server)
        [figures] = run_bench(address, ["--frames", "text", *load.split()])
        cpu = cpu_seconds(server) - before
        http, _, talker, code2wav, _ = cpu / figures["wall_seconds"]
        first = figures["first_byte_ms"]
        print(
            f"{figures['load']}: first chunk {first['p50']:.1f} / {first['p95']:.1f} ms, "
            f"{figures['audio_seconds_a_second']:,.0f} audio s/s, {figures['underruns']} underruns; "
            f"HTTP {http:.0%}, talker {talker:.0%}, Code2Wav {code2wav:.0%} of a core",
            flush=True,
        )


def main() -> None:
    """Start the server and run the loads."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--step-ms", default="11", help="duration of a step of the talker")
    parser.add_argument("--batch-ms", default="4", help="duration of a batch of Code2Wav")
    parser.add_argument("--slots", type=int, default=256, help="utterances at once")
    parser.add_argument("--load", action="append", help='options of sonant bench; may be repeated (default "-c 256")')
    args = parser.parse_args()
    os.environ |= {STEP_MS: args.step_ms, BATCH_MS: args.batch_ms, SWITCH_MS: "0.5", LAUNCHES: "0"}
    print("{cpu}, {cores} cores; Python {python}".format(**machine()), flush=True)
    with stand_in_server(args.slots) as (address, server):
        measure(address, server, args.load or ["-c 256"])


if __name__ == "__main__":
    main()
