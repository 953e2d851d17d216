"""The cost of a load balancer: first chunk and disconnects through HAProxy and nginx, beside direct.

    python -m benchmarks.http.load_balancers [--requests 50]

Starts two servers with a stand-in for the engine, and both load balancers with the configurations in ``deploy/``.
Prints for each way the time until the first chunk, and the time from a client's disconnect until the server has
cancelled its request, in milliseconds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import httpx

from tests.deploy.balancers import KINDS, Balancer
from tests.server.serving import SPEECH, TIMEOUT, Serving, write_config

_SHORT = "Hello."
_LONG = "This is read for a while, because it is long. " * 12
_POLL_S = 0.0005


class _ScriptedServing(Serving):
    """A server with a stand-in for the engine."""

    program = ("-m", "tests.support.scripted_server")


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=50, help="requests for each figure")
    requests = parser.parse_args().requests
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = [stack.enter_context(_server(folder / name)) for name in ("one", "two")]
        addresses = {"direct": servers[0].ready().url}
        servers[1].ready()
        for kind in KINDS:
            balancer = stack.enter_context(Balancer(kind, folder, servers))
            balancer.until_ready()
            addresses[kind] = balancer.url
        first: dict[str, list[float]] = {name: [] for name in addresses}
        gone: dict[str, list[float]] = {name: [] for name in addresses}
        clients = {name: stack.enter_context(httpx.Client(base_url=url)) for name, url in addresses.items()}
        for number in range(requests):  # in turn, so that the load of the machine affects all in the same way
            for name, client in clients.items():
                first[name].append(_first_chunk(client))
                gone[name].append(_disconnect(addresses[name], f"{name}-{number}", servers))
    print(f"{'':8} {'first chunk, ms':>22} {'disconnect seen, ms':>24}")
    for name in addresses:
        print(f"{name:8} {_figures(first[name]):>22} {_figures(gone[name]):>24}")


def _server(folder: Path) -> Serving:
    folder.mkdir()
    return _ScriptedServing(write_config(folder, Path("org/model"), limits={"connection_share": 1}))


def _first_chunk(client: httpx.Client) -> float:
    """Return the seconds from a request to its first chunk."""
    started = time.perf_counter()
    with client.stream("POST", SPEECH, json={"input": _SHORT, "response_format": "pcm"}) as response:
        pieces = response.iter_raw()
        next(pieces)
        seconds = time.perf_counter() - started
        for _ in pieces:
            pass
    return seconds


def _disconnect(url: str, name: str, servers: Sequence[Serving]) -> float:
    """Return the seconds from the disconnect of a client until a server has cancelled its request."""
    with httpx.Client(base_url=url) as client:
        body, headers = {"input": _LONG, "response_format": "pcm"}, {"X-Request-Id": name}
        with client.stream("POST", SPEECH, json=body, headers=headers) as response:
            next(response.iter_raw())
            left = time.perf_counter()
    while not any(f"id={name} status=499" in line for server in servers for line in server.lines):
        if time.perf_counter() - left > TIMEOUT:
            raise TimeoutError(f"the request {name} was not cancelled within {TIMEOUT:g} s")
        time.sleep(_POLL_S)
    return time.perf_counter() - left


def _figures(seconds: Sequence[float]) -> str:
    worst = sorted(seconds)[int(0.9 * len(seconds))]
    return f"{statistics.median(seconds) * 1000:.1f} (90 %: {worst * 1000:.1f})"


if __name__ == "__main__":
    main()
