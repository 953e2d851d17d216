"""Injects faults into the engines of a server under load, and counts the requests that are lost.

    python -m benchmarks.http.faults [--model FOLDER] [--engines 1 2] [--clients 6] [--rounds 20] [--json FILE]

For each number of engines it starts one server. A round injects one fault into one engine while clients send short
requests one after another, and lasts until all engines accept requests again. The faults: SIGKILL, SIGSTOP, and an
exception at every batch of Code2Wav until the engine is replaced. Prints for each: the requests during the faults, and
of them those that failed before and after their first audio; requests that were refused (503) because no engine was
ready; the median and the maximum of the seconds until all engines were ready again; what the server has more than
before, such as file descriptors; and the errors by code.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx
import psutil
import yaml
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.lib.processes import http_process
from benchmarks.lib.report import machine
from benchmarks.lib.serving import ROOT, running_server, supervisor_process

_TIMEOUT_S = 300.0
_POLL_S = 0.05
_SPEECH = "/v1/audio/speech"
_TEXTS = ("Good morning.", "The train is late again.", "We will meet at noon, as we do every day.")
_HEADER = """\
| engines | fault | rounds | requests | lost before audio | cut | refused | recovery, s: median / max | left | errors |
|---|---|---|---|---|---|---|---|---|---|"""
_PROGRAM = ("tests.faults.breakable",)


@dataclass
class Outcomes:
    """Requests of all rounds of one fault."""

    engines: int
    fault: str
    completed: int = 0
    lost_before_audio: int = 0
    cut: int = 0
    refused: int = 0
    recovery_s: list[float] = field(default_factory=list)
    left_behind: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    """Number of failed requests, by error code."""

    def row(self) -> str:
        """Return the row of the table."""
        sent = self.completed + self.lost_before_audio + self.cut + self.refused
        times = f"{statistics.median(self.recovery_s):.1f} / {max(self.recovery_s):.1f}"
        left = ", ".join(f"{count:+d} {name}" for name, count in self.left_behind.items() if count) or "nothing"
        cells = (self.engines, self.fault, len(self.recovery_s), sent, self.lost_before_audio, self.cut, self.refused)
        errors = ", ".join(f"{code}: {count}" for code, count in sorted(self.errors.items())) or "none"
        return f"| {' | '.join(map(str, cells))} | {times} | {left} | {errors} |"


class Load:
    """Clients that send requests one after another, in threads, until the context ends."""

    def __init__(self, address: str, clients: int) -> None:
        self._address = address
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(clients)]
        self.counts: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(_TIMEOUT_S)

    def wait_for_requests(self, count: int) -> None:
        """Wait until ``count`` more requests are complete."""
        target = self.counts["completed"] + count
        _wait_until(lambda: self.counts["completed"] >= target)

    def _run(self, number: int) -> None:
        with httpx.Client(base_url=self._address, timeout=_TIMEOUT_S) as client:
            while not self._stop.is_set():
                outcome, code = _outcome(client, _TEXTS[number % len(_TEXTS)])
                with self._lock:
                    self.counts[outcome] += 1
                    self.errors.update([code] if code else [])
                if outcome == "refused":
                    time.sleep(_POLL_S)
                number += 1


def _outcome(client: httpx.Client, text: str) -> tuple[str, str | None]:
    """Stream one request. Return what became of it, as the name of a field of ``Outcomes``, and its error code."""
    begun = False
    try:
        with client.stream("POST", _SPEECH, json={"input": text, "response_format": "pcm"}) as response:
            if response.status_code != 200:
                code = json.loads(response.read())["error"]["code"]
                refused = response.status_code == 503 and code != "engine_lost"
                return ("refused" if refused else "lost_before_audio"), code
            for _ in response.iter_raw():
                begun = True
    except httpx.HTTPError as error:
        return ("cut" if begun else "lost_before_audio"), type(error).__name__
    return "completed", None


def _kill(engine: psutil.Process, broken: Path) -> None:
    engine.send_signal(signal.SIGKILL)


def _stop(engine: psutil.Process, broken: Path) -> None:
    engine.send_signal(signal.SIGSTOP)


def _break(engine: psutil.Process, broken: Path) -> None:
    Path(broken, f"code2wav.{engine.pid}").touch()


FAULTS: dict[str, Callable[[psutil.Process, Path], None]] = {
    "SIGKILL": _kill,
    "SIGSTOP": _stop,
    "exception at every batch": _break,
}


def measure(address: str, engines: int, fault: str, clients: int, rounds: int, broken: Path) -> Outcomes:
    """Inject ``fault`` ``rounds`` times, each time into another engine in turn."""
    outcomes = Outcomes(engines, fault)
    http = http_process(supervisor_process().pid)
    before = _resources(http)
    with Load(address, clients) as load:
        for number in range(rounds):
            load.wait_for_requests(2 * clients)
            victim = _engines(http)[number % engines]
            began = time.monotonic()
            FAULTS[fault](victim, broken)
            victim.wait(_TIMEOUT_S)
            _wait_until_up(address, engines)
            outcomes.recovery_s.append(time.monotonic() - began)
        load.wait_for_requests(clients)
    for name, count in load.counts.items():
        setattr(outcomes, name, count)
    outcomes.errors = dict(load.errors)
    after = _resources(http)
    outcomes.left_behind = {name: after[name] - count for name, count in before.items()}
    return outcomes


def _resources(http: psutil.Process) -> dict[str, int]:
    return {
        "file descriptors": http.num_fds(),
        "threads": http.num_threads(),
        "processes": len(http.children(recursive=True)),
        "entries in /dev/shm": sum(1 for _ in Path("/dev/shm").iterdir()),
    }


def _engines(http: psutil.Process) -> list[psutil.Process]:
    """Return the engine processes, oldest first."""
    workers = [each for each in http.children() if any("broken_worker" in word for word in each.cmdline())]
    return sorted(workers, key=lambda each: (each.create_time(), each.pid))


def _engines_up(address: str) -> int:
    page = httpx.get(f"{address}/metrics", timeout=_TIMEOUT_S).text
    families = text_string_to_metric_families(page)
    return round(sum(sample.value for each in families for sample in each.samples if sample.name == "sonant_engine_up"))


def _wait_until_up(address: str, engines: int) -> None:
    _wait_until(lambda: _engines_up(address) == engines)


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the server did not recover within {_TIMEOUT_S:g} s")
        time.sleep(_POLL_S)


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
    print(_HEADER, flush=True)
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
