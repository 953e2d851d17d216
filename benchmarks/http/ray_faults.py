"""Kills replicas and nodes of Ray Serve under load, and counts the requests that are lost.

    python -m benchmarks.http.ray_faults [--faults replica node] [--clients 4] [--rounds 5] [--json FILE]

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
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import psutil

from benchmarks.http.faults import Load, Outcomes
from benchmarks.lib.report import machine
from tests.ray.cluster import Cluster

_HEADER = """\
| fault | rounds | requests | lost before audio | cut | refused | recovery, s: median / max | left | errors |
|---|---|---|---|---|---|---|---|---|"""
_SETTINGS = {"keys_file": None, "allow_unauthenticated": True, "limits": {"client_share": 1.0}}


def _kill_replica(cluster: Cluster, number: int) -> None:
    replicas = sorted(cluster.replicas(), key=lambda each: each.id)
    os.kill(replicas[number % len(replicas)].pid, signal.SIGKILL)


def _kill_node(cluster: Cluster, number: int) -> None:
    cluster.nodes.pop().kill()
    cluster.add_node(cpus=1)


FAULTS: dict[str, Callable[[Cluster, int], None]] = {"replica": _kill_replica, "node": _kill_node}


def measure(cluster: Cluster, fault: str, clients: int, rounds: int) -> Outcomes:
    """Inject ``fault`` ``rounds`` times."""
    outcomes = Outcomes(2, f"SIGKILL of a {fault}")
    before = _resources(cluster)
    with Load(cluster.url, clients) as load:
        for number in range(rounds):
            load.wait_for_requests(2 * clients)
            known = {each.id for each in cluster.until_running(2)}
            began = time.monotonic()
            FAULTS[fault](cluster, number)
            while {each.id for each in cluster.until_running(2)} == known:
                time.sleep(0.1)
            outcomes.recovery_s.append(time.monotonic() - began)
        load.wait_for_requests(clients)
    for name, count in load.counts.items():
        setattr(outcomes, name, count)
    outcomes.errors = dict(load.errors)
    after = _resources(cluster)
    outcomes.left_behind = {name: after[name] - count for name, count in before.items()}
    return outcomes


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
    print(_HEADER, flush=True)
    results: list[Outcomes] = []
    with Cluster(cpus=1) as cluster:
        cluster.add_node(cpus=1)
        cluster.deploy(2, **_SETTINGS)
        cluster.until_running(2)
        for fault in args.faults:
            results.append(measure(cluster, fault, args.clients, args.rounds))
            print(f"| {results[-1].row().split(' | ', 1)[1]}", flush=True)
    if args.json:
        figures = {"machine": machine(), "results": [asdict(each) for each in results]}
        args.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
