"""Measures the cost of the pipeline without its models: CPU time (us) per frame and per chunk, in each thread.

    python -m benchmarks.cpu.pipeline_cost [--listeners 1 32 128 256] [--step-ms 12] [--batch-ms 2] [--chunk-frames 12]

The server runs with ``benchmarks/lib/stand_in_engine.py`` in place of both models. It streams raw PCM to N clients
during the whole measurement, one frame of each per step. The clients are those of ``sonant bench``, in this process.
CPU time is counted by the kernel per thread. In the table, ``talker`` is the time of stage 1 per frame, ``code2wav``
that of stage 2 per chunk, ``rest`` that of the other engine threads per chunk, ``http`` that of the whole HTTP process
per chunk, and ``its loop`` that of its event loop. ``engine`` and the second ``http`` are the CPU usage of both stages
and of the HTTP process, as a share of one core. ``pause`` is the time that the GPU would be idle between two steps of
the talker (median, 99th percentile and worst, ms): Python's own time, and waiting for the GIL.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import yaml
from numpy.typing import NDArray

from benchmarks.lib import serving
from benchmarks.lib.processes import Processes, processes
from benchmarks.lib.report import machine
from benchmarks.lib.stand_in_engine import BATCH_MS, LAUNCHES, MOST_PAUSES, PAUSES, STEP_MS, SWITCH_MS, is_code2wav
from server.bench.client import Client
from server.bench.trace import Trace
from server.bench.workload import SENTENCES, Workload
from tests.support.random_checkpoint import write_checkpoint

CONTEXT = 8192


@dataclass(frozen=True, slots=True)
class Reading:
    """CPU seconds of each part, and the numbers of frames, chunks, batches and steps, up to a moment."""

    moment: float
    talker: float
    code2wav: float
    engine: float
    loop: float
    http: float
    frames: int
    chunks: int
    batches: int
    steps: int


def read(server: Processes, stats: dict[str, Any]) -> Reading:
    """Return a reading. stats: the engine statistics of ``/ready``."""
    threads = {(each.pid, thread.id): thread for each in server.all for thread in each.threads()}
    seconds = {key: thread.user_time + thread.system_time for key, thread in threads.items()}
    http = sum(cpu_seconds for (pid, _), cpu_seconds in seconds.items() if pid == server.http.pid)
    worker = server.engine[0].pid
    [code2wav] = [key for key in seconds if is_code2wav(*key)]
    return Reading(
        time.perf_counter(),
        seconds[worker, worker],
        seconds[code2wav],
        sum(cpu_seconds for (pid, _), cpu_seconds in seconds.items() if pid in {each.pid for each in server.engine}),
        seconds[server.http.pid, server.http.pid],
        http,
        stats["talker_step_rows"],
        stats["code2wav_batch_rows"],
        stats["code2wav_batches"],
        int(_pauses()[0]),
    )


def _pauses() -> NDArray[np.float32]:
    return np.memmap(os.environ[PAUSES], np.float32, "r")


async def run_clients(address: str, listeners: int, seconds: float, server: Processes) -> tuple[Reading, Reading]:
    """Return two readings ``seconds`` apart, while ``listeners`` clients receive audio."""
    client = Client(address, None, timeout=600, rate=24_000, audible=0.01)
    workload = Workload(SENTENCES, frames=CONTEXT - 512)
    traces = [Trace(number, 0.0, 0.0) for number in range(listeners)]
    tasks = [asyncio.create_task(client.prepare(workload.body(trace.number))(trace)) for trace in traces]
    async with httpx.AsyncClient(base_url=address, timeout=60) as http_client:

        async def reading() -> Reading:
            stats = (await http_client.get("/ready")).raise_for_status().json()["engine"]
            return await asyncio.to_thread(read, server, stats)

        while not all(len(trace.pieces) > 3 for trace in traces):  # noqa: ASYNC110 - the load client has no event for this
            await asyncio.sleep(0.1)
        first = await reading()
        await asyncio.sleep(seconds)
        second = await reading()
    if any(each.done() for each in tasks):
        raise SystemExit("an utterance ended before the measurement did")
    for each in tasks:
        each.cancel()
        with suppress(asyncio.CancelledError):
            await each
    return first, second


def row(listeners: int, a: Reading, b: Reading) -> str:
    """Return the table row for the time between two readings."""
    seconds, frames, chunks = b.moment - a.moment, b.frames - a.frames, b.chunks - a.chunks
    talker, code2wav, loop, http = b.talker - a.talker, b.code2wav - a.code2wav, b.loop - a.loop, b.http - a.http
    rest = b.engine - a.engine - talker - code2wav
    each = [1e6 * talker / frames, *(1e6 * cpu_seconds / chunks for cpu_seconds in (code2wav, rest, http, loop))]
    loads = [(talker + code2wav) / seconds, http / seconds]
    pauses = 1e3 * np.quantile(_pauses()[1 + a.steps : 1 + b.steps], (0.5, 0.99, 1))
    return (
        f"{listeners:9d} {frames / seconds:9,.0f} {chunks / seconds:9,.0f}"
        f" {frames / chunks:13.1f} {chunks / (b.batches - a.batches):14.1f}"
        + "".join(f"{value:9.1f}" for value in each)
        + "".join(f"{load:8.0%}" for load in loads)
        + "".join(f"{pause:8.2f}" for pause in pauses)
    )


def measure(args: argparse.Namespace, placement: str, folder: Path, checkpoint: Path) -> None:
    """Print the table for one placement of Code2Wav."""
    max_clients = max(args.listeners)
    config = folder / f"{placement}.yaml"
    code2wav = {
        "placement": placement,
        "streams": max_clients,
        "max_chunk_frames": args.chunk_frames,
        "max_batch_frames": 128 * args.chunk_frames,
    }
    talker = {"engine": "native", "slots": max_clients, "context": CONTEXT}
    engine = {"model": str(checkpoint), "device": "cpu", "threads": 1, "talker": talker, "code2wav": code2wav}
    config.write_text(yaml.safe_dump({"engine": engine, "guards": "off"}))
    program = ("benchmarks.lib.stand_in_engine", "server.cli.main")
    with serving.running_server(config, folder / f"{placement}.log", program=program) as (address, _):
        server = processes(serving.supervisor_process().pid)
        heads = "  clients  frames/s  chunks/s  frames/chunk   chunks/batch"
        parts = "   talker code2wav     rest     http its loop  engine    http   pause     p99   worst"
        print(f"\n{placement}\n{heads}{parts}", flush=True)
        for listeners in args.listeners:
            print(row(listeners, *asyncio.run(run_clients(address, listeners, args.seconds, server))), flush=True)


def main() -> None:
    """Measure the placements, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listeners", type=int, nargs="+", default=[1, 32, 128, 256], help="numbers of clients")
    parser.add_argument("--step-ms", type=float, default=12.0, help="duration of a talker step")
    parser.add_argument("--batch-ms", type=float, default=2.0, help="duration of a Code2Wav batch")
    parser.add_argument("--switch-ms", type=float, default=5.0, help="Python's switch interval in the engine")
    parser.add_argument("--launches", type=int, default=0, help="number of times that a step releases the GIL")
    parser.add_argument("--chunk-frames", type=int, default=12, help="maximum frames of a chunk")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each measurement")
    parser.add_argument("--placement", nargs="+", default=["thread", "process"])
    args = parser.parse_args()
    os.environ[LAUNCHES] = str(args.launches)
    for variable, milliseconds in ((STEP_MS, args.step_ms), (BATCH_MS, args.batch_ms), (SWITCH_MS, args.switch_ms)):
        os.environ[variable] = str(milliseconds)
    print("{cpu}, {cores} cores; Python {python}".format(**machine()), flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ[PAUSES] = str(folder / "pauses")
        np.memmap(folder / "pauses", np.float32, "w+", shape=(1 + MOST_PAUSES,))
        checkpoint = folder / "checkpoint"
        checkpoint.mkdir()
        write_checkpoint(checkpoint, "0b6-custom_voice")
        for placement in args.placement:
            measure(args, placement, folder, checkpoint)


if __name__ == "__main__":
    main()
