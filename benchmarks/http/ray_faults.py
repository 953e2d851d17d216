"""Kills replicas and nodes of Ray Serve under load, and counts the requests that are lost.

    python -m benchmarks.http.ray_faults [--faults "Ray replica" "Ray node"] [--clients 4] [--rounds 5] [--json FILE]

Needs the extra ``ray``: make test-ray installs it into .venv-ray. Starts a head node with HAProxy and one replica, and
a second node with another replica, all on this machine. A round kills one replica (SIGKILL), or all processes of the
second node, which is then started again, while clients send short requests one after another. It lasts until both
replicas run again. Prints for each fault what benchmarks/http/faults.py prints for the faults of an engine.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import psutil

from benchmarks.lib.fault_load import HEADER, Outcomes, inject, wait_until
from benchmarks.lib.report import machine
from tests.ray.cluster import Cluster

_SETTINGS = {"keys_file": None, "allow_unauthenticated": True, "limits": {"client_share": 1.0}}


def _kill_replica(cluster: Cluster, number: int) -> None:
    replicas = sorted(cluster.replicas(), key=lambda each: each.id)
    os.kill(replicas[number % len(replicas)].pid, signal.SIGKILL)


def _kill_node(cluster: Cluster, number: int) -> None:
    cluster.nodes.pop().kill()
    cluster.add_node(cpus=1)


FAULTS: dict[str, Callable[[Cluster, int], None]] = {"Ray replica": _kill_replica, "Ray node": _kill_node}


def measure(cluster: Cluster, fault: str, clients: int, rounds: int) -> Outcomes:
    """Inject ``fault`` ``rounds`` times."""

    def break_one(number: int) -> None:
        known = {each.id for each in cluster.until_running(2)}
        FAULTS[fault](cluster, number)
        wait_until(lambda: {each.id for each in cluster.until_running(2)} != known)

    def count() -> dict[str, int]:
        return _resources(cluster)

    return inject(f"{fault}: SIGKILL", cluster.url, clients=clients, rounds=rounds, break_one=break_one, count=count)


def _resources(cluster: Cluster) -> dict[str, int]:
    """Return the number of processes that a killed replica or node could leave behind, by kind."""
    commands = []
    for process in cluster.processes():
        with suppress(psutil.NoSuchProcess):
            commands.append(" ".join(process.cmdline()))
    return {
        "engine processes": sum("engine.worker" in each for each in commands),
        "replica processes": sum("ray::ServeReplica" in each for each in commands),
    }


def main() -> None:
    """Start the nodes, inject the faults and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", nargs="+", choices=list(FAULTS), default=list(FAULTS))
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5, help="number of times that each fault is injected")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    args = parser.parse_args()
    print("{cpu}; Python {python}, torch {torch}".format(**machine()))
    print(HEADER, flush=True)
    results: list[Outcomes] = []
    with Cluster(cpus=1) as cluster:
        cluster.add_node(cpus=1)
        cluster.deploy(2, **_SETTINGS)
        cluster.until_running(2)
        for fault in args.faults:
            results.append(measure(cluster, fault, args.clients, args.rounds))
            print(results[-1].row(), flush=True)
    if args.json:
        figures = {"machine": machine(), "results": [asdict(each) for each in results]}
        args.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
