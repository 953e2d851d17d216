"""Injects faults into the processes of a server under load, and counts the requests that are lost.

    python -m benchmarks.http.faults [--model FOLDER] [--engines 1 2] [--clients 6] [--rounds 20] [--json FILE]

For each number of engines it starts one server. A round injects one fault while clients send short requests one after
another, and lasts until all engines accept requests again. The faults of an engine: SIGKILL, SIGSTOP, and an exception
at every step of the talker or at every batch of Code2Wav until the engine is replaced; and SIGKILL of the HTTP process.
Prints for each: the requests during the faults, and of them those that failed before and after their first audio;
requests that were refused (503) because no engine was ready; the median and the maximum of the seconds until all
engines were ready again; what the server has more than before, such as file descriptors; and the errors by code.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import httpx
import psutil
import yaml
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.lib.fault_load import HEADER, TIMEOUT_S, Outcomes, inject, wait_until
from benchmarks.lib.processes import http_process
from benchmarks.lib.report import machine
from benchmarks.lib.serving import ROOT, running_server, supervisor_process

_PROGRAM = ("tests.faults.breakable",)


def _kill(engine: psutil.Process, broken: Path) -> psutil.Process:
    engine.send_signal(signal.SIGKILL)
    return engine


def _stop(engine: psutil.Process, broken: Path) -> psutil.Process:
    engine.send_signal(signal.SIGSTOP)
    return engine


def _break_talker(engine: psutil.Process, broken: Path) -> psutil.Process:
    Path(broken, f"talker.{engine.pid}").touch()
    return engine


def _break_code2wav(engine: psutil.Process, broken: Path) -> psutil.Process:
    Path(broken, f"code2wav.{engine.pid}").touch()
    return engine


def _kill_http(engine: psutil.Process, broken: Path) -> psutil.Process:
    http = _http()
    http.send_signal(signal.SIGKILL)
    return http


FAULTS: dict[str, Callable[[psutil.Process, Path], psutil.Process]] = {
    "engine: SIGKILL": _kill,
    "engine: SIGSTOP": _stop,
    "engine: exception at every step": _break_talker,
    "engine: exception at every batch": _break_code2wav,
    "HTTP process: SIGKILL": _kill_http,
}
"""Each injects one fault and returns the process that ends by it. engine: the engine to break. broken: the folder of
tests/faults/broken_worker.py."""


def measure(address: str, engines: int, fault: str, clients: int, rounds: int, broken: Path) -> Outcomes:
    """Inject ``fault`` ``rounds`` times, each time into another engine in turn."""

    def break_one(number: int) -> None:
        victim = FAULTS[fault](_engines()[number % engines], broken)
        victim.wait(TIMEOUT_S)
        _wait_until_up(address, engines)

    name = f"{fault}, {engines} {'engine' if engines == 1 else 'engines'}"
    return inject(name, address, clients=clients, rounds=rounds, break_one=break_one, count=_resources)


def _http() -> psutil.Process:
    return http_process(supervisor_process().pid)


def _resources() -> dict[str, int]:
    http = _http()
    return {
        "file descriptors": http.num_fds(),
        "threads": http.num_threads(),
        "processes": len(supervisor_process().children(recursive=True)),
        "entries in /dev/shm": sum(1 for _ in Path("/dev/shm").iterdir()),
    }


def _engines() -> list[psutil.Process]:
    """Return the engine processes, oldest first."""
    workers = [each for each in _http().children() if any("broken_worker" in word for word in each.cmdline())]
    return sorted(workers, key=lambda each: (each.create_time(), each.pid))


def _engines_up(address: str) -> int:
    """Return how many engines accept requests: none while the HTTP process does not answer."""
    with suppress(httpx.HTTPError):
        page = httpx.get(f"{address}/metrics", timeout=TIMEOUT_S).text
        samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
        return round(sum(each.value for each in samples if each.name == "sonant_engine_up"))
    return 0


def _wait_until_up(address: str, engines: int) -> None:
    wait_until(lambda: _engines_up(address) == engines)


def _write_config(folder: Path, model: Path, engines: int, stall_seconds: float) -> Path:
    engine = {"model": str(model), "device": "cpu", "threads": 1, "stall_seconds": stall_seconds}
    config = folder / f"{engines}.yaml"
    models = [{"name": "faults", "replicas": engines, "engine": engine}]
    config.write_text(yaml.safe_dump({"models": models}))
    return config


def main() -> None:
    """Start a server for each number of engines, inject the faults and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=ROOT / "models" / "pocket")
    parser.add_argument("--engines", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--faults", nargs="+", choices=list(FAULTS), default=list(FAULTS))
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=20, help="number of times that each fault is injected")
    parser.add_argument("--stall-seconds", type=float, default=20.0, help="engine.stall_seconds of the servers")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    args = parser.parse_args()
    print("{cpu}; Python {python}, torch {torch}".format(**machine()))
    print(HEADER, flush=True)
    results: list[Outcomes] = []
    for engines in args.engines:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            os.environ["BROKEN_PARTS"] = name
            config = _write_config(folder, args.model.resolve(), engines, args.stall_seconds)
            with running_server(config, folder / "log", program=_PROGRAM) as (address, _):
                _wait_until_up(address, engines)
                for fault in args.faults:
                    results.append(measure(address, engines, fault, args.clients, args.rounds, folder))
                    print(results[-1].row(), flush=True)
    if args.json:
        figures = {"machine": machine(), "results": [asdict(each) for each in results]}
        args.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
