"""The cost of Ray Serve beside a server without it: first chunk, and CPU time of each part per second of audio.

    python -m benchmarks.http.ray_serve [--ways direct haproxy python] [--requests 60] [--at-once 1 4]

Needs the extra ``ray``: make test-ray installs it into .venv-ray. Each way runs one server, one replica of Ray Serve
behind HAProxy, or one behind Ray's proxy in Python, in turn. All speak with the pocket checkpoint. Prints quantiles of
the time from a request to its first chunk in milliseconds, and CPU time in milliseconds per second of audio: of the
engine process, of the process with the application, of the proxy, and of all other processes of Ray.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import psutil
import yaml

from benchmarks.lib.processes import processes
from benchmarks.lib.report import machine
from benchmarks.lib.serving import ROOT, running_server, supervisor_process
from tests.ray.cluster import Cluster

_SPEECH = "/v1/audio/speech"
_TEXT = "The train is late again, so we will meet at noon, as we do every day."
_BYTES_PER_SECOND = 24_000 * 2
_TIMEOUT_S = 120.0
_PARTS = ("engine", "application", "proxy", "other")
_SETTINGS = {"guards": "off", "engine": {"device": "cpu", "threads": 1}, "allow_unauthenticated": True}


@dataclass
class Server:
    """A running server. pids: of the processes of each part."""

    url: str
    pids: dict[str, list[int]]

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU time that each part has used so far."""
        return {part: sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids) for part, pids in self.pids.items()}


@contextmanager
def _direct() -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as name:
        config = Path(name, "sonant.yaml")
        engine = {**_SETTINGS["engine"], "model": str(ROOT / "models" / "pocket")}  # type: ignore[dict-item]
        config.write_text(yaml.safe_dump({**_SETTINGS, "engine": engine, "voices": {"folder": f"{name}/voices"}}))
        with running_server(config, Path(name, "log")) as (url, _):
            parts = processes(supervisor_process().pid)
            engine_pids = [each.pid for each in parts.engine]
            other = [each.pid for each in (*parts.others, parts.supervisor)]
            yield Server(url, {"engine": engine_pids, "application": [parts.http.pid], "proxy": [], "other": other})


@contextmanager
def _ray(**variables: str) -> Iterator[Server]:
    with Cluster(1, **variables) as cluster:
        cluster.deploy(1, **{**_SETTINGS, "keys_file": None})
        [replica] = cluster.until_running(1)
        pids: dict[str, list[int]] = {part: [] for part in _PARTS}
        engine = replica.engine
        family = {engine.pid, *(each.pid for each in engine.children(recursive=True))}
        for process in cluster.nodes[0].processes():
            pids[_part(process, replica.pid, family)].append(process.pid)
        yield Server(cluster.url, pids)


def _part(process: psutil.Process, replica: int, engine: set[int]) -> str:
    """Return the part that a process of a Ray node belongs to."""
    if process.pid in engine:
        return "engine"
    if process.pid == replica:
        return "application"
    words = " ".join(process.cmdline())
    haproxy = process.name() == "haproxy"
    return "proxy" if haproxy or "ray::ProxyActor" in words or "ray::HAProxyManager" in words else "other"


_WAYS: dict[str, Callable[[], AbstractContextManager[Server]]] = {
    "direct": _direct,
    "haproxy": _ray,
    "python": lambda: _ray(RAY_SERVE_ENABLE_HA_PROXY="0"),
}


def measure(server: Server, requests: int, at_once: int) -> tuple[list[float], dict[str, float]]:
    """Send ``requests`` requests, ``at_once`` at a time.

    Return the seconds to each first chunk, and the CPU seconds of each part per second of audio.
    """
    firsts: list[float] = []
    totals: Counter[str] = Counter()
    lock = threading.Lock()

    def run() -> None:
        with httpx.Client(base_url=server.url, timeout=_TIMEOUT_S) as client:
            while True:
                with lock:
                    number = totals["sent"]
                    if number >= requests:
                        return
                    totals["sent"] += 1
                first, size = _stream(client, number)
                with lock:
                    firsts.append(first)
                    totals["bytes"] += size

    before = server.cpu_seconds()
    threads = [threading.Thread(target=run) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = server.cpu_seconds()
    audio = totals["bytes"] / _BYTES_PER_SECOND
    return firsts, {part: (after[part] - used) / audio for part, used in before.items()}


def _stream(client: httpx.Client, seed: int) -> tuple[float, int]:
    """Send one request. Return the seconds until its first chunk, and the bytes of audio."""
    body = {"input": _TEXT, "response_format": "pcm", "seed": seed}
    began = time.perf_counter()
    with client.stream("POST", _SPEECH, json=body) as response:
        response.raise_for_status()
        pieces = response.iter_raw()
        size = len(next(pieces))
        first = time.perf_counter() - began
        return first, size + sum(map(len, pieces))


def main() -> None:
    """Run each way and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", nargs="+", choices=list(_WAYS), default=list(_WAYS))
    parser.add_argument("--requests", type=int, default=60, help="requests for each row")
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 4], help="numbers of concurrent requests")
    args = parser.parse_args()
    print("{cpu}, {cores} cores; Python {python}".format(**machine()))
    print(f"| way | at once | first chunk, ms: p50 / p95 | {' | '.join(f'{part}, ms CPU/s' for part in _PARTS)} |")
    print(f"|---|---|---|{'---|' * len(_PARTS)}", flush=True)
    for way in args.ways:
        with _WAYS[way]() as server:
            measure(server, 4, 1)
            for at_once in args.at_once:
                firsts, cpu = measure(server, args.requests, at_once)
                middle, high = 1000 * np.quantile(firsts, (0.5, 0.95))
                parts = " | ".join(f"{1000 * cpu[part]:.1f}" for part in _PARTS)
                print(f"| {way} | {at_once} | {middle:.0f} / {high:.0f} | {parts} |", flush=True)


if __name__ == "__main__":
    main()
