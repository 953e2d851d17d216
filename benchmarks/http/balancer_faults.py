"""Kills servers behind HAProxy under load, and counts the requests that are lost.

    python -m benchmarks.http.balancer_faults [--clients 6] [--rounds 20] [--json FILE]

Starts two servers with the pocket checkpoint behind HAProxy with the configuration in ``deploy/haproxy``. A round kills
all processes of one server (SIGKILL) while clients send short requests one after another, starts the server again, and
lasts until HAProxy sends requests to it. Prints what benchmarks/http/faults.py prints.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path

import httpx
import psutil
import yaml

from benchmarks.lib.fault_load import HEADER, Outcomes, inject, wait_until
from benchmarks.lib.report import machine
from tests.deploy.balancers import Balancer
from tests.server.serving import ROOT, Serving


class Servers:
    """Two servers on fixed ports, the processes of which can be killed."""

    def __init__(self, folder: Path) -> None:
        self._configs = [folder / name / "sonant.yaml" for name in ("one", "two")]
        for config in self._configs:
            config.parent.mkdir()
            engine = {"model": str(ROOT / "models" / "pocket"), "device": "cpu", "threads": 1}
            # HAProxy is one client for the server, and a request that has lost its server goes to the other one.
            limits = {"client_share": 1, "restart_wait_seconds": 0}
            config.write_text(yaml.safe_dump({"engine": engine, "limits": limits}))
        self.running = [Serving(config) for config in self._configs]
        for server in self.running:
            server.ready()

    def kill(self, number: int) -> None:
        """Kill one server, and start it again on its port."""
        server = self.running[number]
        port = httpx.URL(server.url).port
        processes = server.processes().all
        for process in (processes[-1], *processes[:-1]):
            with suppress(psutil.NoSuchProcess):
                os.kill(process.pid, signal.SIGKILL)
        self.running[number].__exit__(None, None, None)
        self.running[number] = Serving(self._configs[number], "--port", str(port)).ready()

    def close(self) -> None:
        """Stop both servers."""
        for server in self.running:
            server.__exit__(None, None, None)


def measure(servers: Servers, balancer: Balancer, clients: int, rounds: int) -> Outcomes:
    """Kill one server after the other, ``rounds`` times."""

    def break_one(number: int) -> None:
        victim = number % len(servers.running)
        servers.kill(victim)
        wait_until(lambda: _completed(servers.running[victim].url) > 0)

    fault = "server behind HAProxy: SIGKILL"
    return inject(fault, balancer.url, clients=clients, rounds=rounds, break_one=break_one, count=_resources)


def _completed(url: str) -> int:
    """Return the number of requests that the server has begun to answer since its start."""
    page = httpx.get(f"{url}/metrics").text
    lines = [line for line in page.splitlines() if line.startswith("sonant_requests_total{")]
    return round(sum(float(line.rpartition(" ")[2]) for line in lines))


def _resources() -> dict[str, int]:
    return {
        "processes": len(psutil.Process().children(recursive=True)),
        "entries in /dev/shm": sum(1 for _ in Path("/dev/shm").iterdir()),
    }


def main() -> None:
    """Start both servers and HAProxy, kill servers and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=20, help="number of times that a server is killed")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    args = parser.parse_args()
    print("{cpu}; Python {python}, torch {torch}".format(**machine()))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = Servers(folder)
        stack.callback(servers.close)
        balancer = stack.enter_context(Balancer("haproxy", folder, servers.running))
        balancer.until_ready()
        outcomes = measure(servers, balancer, args.clients, args.rounds)
    print(f"{HEADER}\n{outcomes.row()}")
    if args.json:
        args.json.write_text(json.dumps({"machine": machine(), "results": [asdict(outcomes)]}, indent=2) + "\n")


if __name__ == "__main__":
    main()
