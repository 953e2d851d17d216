"""Compares one engine, two engines behind one HTTP process, and two servers with one engine each.

    python -m benchmarks.http.engines [--config FILE] [--model FOLDER] [--at-once 64 256 512 1024] [--layout one pool
        servers] [--http-processes 1 4] [--rounds 4] [--clients 4] [--json FILE]

Each load keeps ``--at-once`` requests running until ``--rounds`` times as many are answered, from ``--clients`` client
processes. Two servers show what is possible without common HTTP processes: half of the clients use each of them. On a
GPU each engine has its own. Each layout is measured with each of the ``--http-processes``, the setting of a server.
Prints for each load: the time to the first chunk, seconds of audio per second, the share of requests whose playback had
no underrun, CPU usage of the HTTP processes and of all engine processes in cores, and the CPU usage of the busiest
client process, which is the bottleneck above about 0.8.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import multiprocessing
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from benchmarks.http.serve import gpu_memory_line
from benchmarks.lib.report import machine
from benchmarks.lib.serving import ROOT, TIMEOUT_S, running_server
from server.bench.client import Client
from server.bench.figures import Figures, figures_of
from server.bench.run import Run, run
from server.bench.summary import summary_of
from server.bench.workload import SENTENCES, Closed, Workload

_LAYOUTS: dict[str, tuple[tuple[int, ...], ...]] = {"one": ((0,),), "pool": ((0, 1),), "servers": ((0,), (1,))}
"""Layout -> the GPUs of each server's engines."""
_TITLES = {"one": "one engine", "pool": "two engines", "servers": "two servers"}
_AUDIBLE = 0.01
_BUFFER_S = 0.1
_barrier: Any = None


@dataclass(frozen=True)
class Server:
    """A running server. http: its HTTP processes. engines: all descendants of these."""

    address: str
    http: tuple[psutil.Process, ...]
    engines: tuple[psutil.Process, ...]

    def cpu_seconds(self) -> tuple[float, float]:
        """Return the CPU seconds that the HTTP processes and the engine processes have used."""
        http, engines = (sum(sum(each.cpu_times()[:2]) for each in group) for group in (self.http, self.engines))
        return http, engines


def settings_for(config: Path, model: str | None, gpus: Sequence[int]) -> dict[str, Any]:
    """Return the settings of ``config`` with one engine for each of ``gpus``. On a CPU only their number counts."""
    settings: dict[str, Any] = yaml.safe_load(config.read_text())
    of_model = {name: settings.pop(name) for name in ("default_voice", "voice_aliases") if name in settings}
    engine = settings.pop("engine")
    folder = config.parent / engine["model"]  # names of the hub are no folders
    engine["model"] = model or (str(folder.resolve()) if folder.is_dir() else engine["model"])
    where = {"gpus": list(gpus)} if engine.get("device", "auto") == "cuda" else {"replicas": len(gpus)}
    name = settings.pop("served_name", "benchmark")
    settings.pop("model_aliases", None)
    return settings | {"models": [{"name": name, "engine": engine} | of_model | where]}


@contextmanager
def servers_for(config: Path, model: str | None, layout: str, http_processes: int) -> Iterator[list[Server]]:
    """Run the servers of a layout, each with ``http_processes``."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = []
        for index, gpus in enumerate(_LAYOUTS[layout]):
            file, log = folder / f"{index}.yaml", folder / f"{index}.log"
            settings = settings_for(config, model, gpus) | {"voices": {"folder": str(folder / f"voices-{index}")}}
            settings["http_processes"] = http_processes
            file.write_text(yaml.safe_dump(settings))
            known = set(psutil.Process().children())
            address, seconds = stack.enter_context(running_server(file, log))
            (supervisor,) = (each for each in set(psutil.Process().children()) - known if "serve" in each.cmdline())
            http = tuple(supervisor.children())
            engines = tuple(each for process in http for each in process.children(recursive=True))
            servers.append(Server(address, http, engines))
            print(f"start to ready {seconds:.1f} s", *gpu_memory_line(log.read_text()), flush=True)
        yield servers


def set_barrier(barrier: Any) -> None:
    """Store the barrier at which the client processes wait for each other."""
    global _barrier
    _barrier = barrier


def run_client(address: str, at_once: int, requests: int, first_seed: int, voices: Sequence[str]) -> Any:
    """Run the share of one client process. Return its load's date, seconds, CPU seconds, and figures."""
    client = Client(address, None, timeout=TIMEOUT_S, rate=24_000, audible=_AUDIBLE)
    workload = Workload(SENTENCES, voices, {"stream_format": "audio"}, frames="text", first_seed=first_seed)
    _barrier.wait(TIMEOUT_S)

    async def load() -> Run:
        await client.reach()
        return await run(Closed(at_once, requests), client, workload)

    done = asyncio.run(load())
    each = [figures_of(trace, began=done.began, buffer=_BUFFER_S) for trace in done.traces]
    return done.date, done.seconds, done.busy, each


def measure(
    servers: Sequence[Server],
    clients: ProcessPoolExecutor,
    count: int,
    at_once: int,
    rounds: int,
    voices: Sequence[str],
) -> dict[str, Any]:
    """Run one load against the servers, print its figures and return them."""
    before = [server.cpu_seconds() for server in servers]
    share = at_once // count
    tasks = [
        clients.submit(
            run_client, servers[index % len(servers)].address, share, share * rounds, 1 + index * 100_000, voices
        )
        for index in range(count)
    ]
    results = [task.result() for task in tasks]
    used = [
        [b - a for a, b in zip(*pair, strict=True)]
        for pair in zip(before, map(Server.cpu_seconds, servers), strict=True)
    ]
    seconds = max(result[1] for result in results)
    figures: list[Figures] = [each for result in results for each in result[3]]
    busy = max(result[2] / result[1] for result in results)
    summary = summary_of(Run(Closed(at_once), [], 0.0, results[0][0], seconds, busy * seconds), figures)
    first = summary.spreads["playable"].percentiles
    row = {
        "at_once": at_once,
        "outcomes": summary.outcomes,
        "first_chunk_ms": {percent: round(first[percent] * 1000, 1) for percent in (50, 95)},
        "audio_per_second": round(summary.audio / seconds, 1),
        "continuity": round(summary.continuity, 4),
        "http_cores": [round(http / seconds, 2) for http, _ in used],
        "engine_cores": [round(engines / seconds, 2) for _, engines in used],
        "client_busy": round(busy, 2),
    }
    print(
        f"{at_once:5d} at once: first chunk {first[50] * 1000:.1f} / {first[95] * 1000:.1f} ms, "
        f"{row['audio_per_second']} audio s/s, continuity {row['continuity']}; CPU cores: HTTP {row['http_cores']}, "
        f"engines {row['engine_cores']}, busiest client {row['client_busy']}; {summary.outcomes}",
        flush=True,
    )
    return row


def main() -> None:
    """Run the loads with each layout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "h200-1.7b.yaml")
    parser.add_argument("--model", help="a checkpoint folder or hub name that replaces the model of the configuration")
    parser.add_argument("--at-once", type=int, nargs="+", default=[64, 256, 512, 1024])
    parser.add_argument("--layout", nargs="+", choices=_LAYOUTS, default=list(_LAYOUTS))
    parser.add_argument("--http-processes", type=int, nargs="+", default=[1])
    parser.add_argument("--rounds", type=int, default=4, help="requests of a load, as a multiple of --at-once")
    parser.add_argument("--clients", type=int, default=4, help="client processes")
    parser.add_argument("--voice", action="append", default=[], help="may be repeated: requests use them in turn")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    args = parser.parse_args()
    report: dict[str, Any] = {"machine": machine(), "config": args.config.name, "layouts": {}}
    print("{cpu}, {cores} cores; Python {python}, torch {torch}".format(**machine()), flush=True)
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(args.clients)
    for layout, processes in itertools.product(args.layout, args.http_processes):
        title = f"{_TITLES[layout]}, HTTP processes of each server: {processes}"
        print(f"== {title}", flush=True)
        with (
            servers_for(args.config, args.model, layout, processes) as servers,
            ProcessPoolExecutor(args.clients, context, set_barrier, (barrier,)) as clients,
        ):
            rows = report["layouts"][title] = []
            measure(servers, clients, args.clients, args.clients, 2, args.voice)
            for at_once in args.at_once:
                rows.append(measure(servers, clients, args.clients, at_once, args.rounds, args.voice))
                if args.json:
                    args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
