"""Benchmarks the chunk transfer adapter: records per second and round trips, between two processes and within one.

python benchmarks/cpu/transfer.py [--records N] [--round-trips N]
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from engine.transfer import Endpoint, Kind, Side, Wakeup, pair, spawn  # noqa: E402

WINDOW = 256
TIMEOUT = 30.0
FRAME = 16 * 2
"""Bytes of one codec frame's codes."""
FRAME_WITH_AUDIO = FRAME + 1920 * 4
"""Bytes of one frame's codes and samples."""


def wait(wakeup: Wakeup, endpoint: Endpoint) -> None:
    """Wait for the next record or credit. Raises SystemExit after ``TIMEOUT`` seconds."""
    if not wakeup.wait_for(endpoint.pending, TIMEOUT):
        raise SystemExit(f"no record or credit arrived within {TIMEOUT:g} s")


def run_far_side(side: Side) -> None:
    """Run the far side: release every record at once, and send back each record of stream 0."""
    wakeup = Wakeup()
    with side.attach(wakeup) as endpoint:
        endpoint.open(0)
        while endpoint.alive:
            wakeup.wait_for(endpoint.pending)
            for record in endpoint.receive():
                if record.kind is Kind.DATA:
                    endpoint.release(record.stream, record.units)
                    if record.stream == 0:
                        endpoint.send(0, record.payload, 0)


@contextlib.contextmanager
def far_side(placement: str) -> Iterator[tuple[Endpoint, Wakeup]]:
    """Yield the near side of a link whose far side runs in another process or thread."""
    near, far = pair(window=WINDOW)
    wakeup = Wakeup()
    endpoint = near.attach(wakeup)
    thread = child = None
    if placement == "thread":
        thread = threading.Thread(target=run_far_side, args=(far,), daemon=True)
        thread.start()
    else:
        child = spawn([sys.executable, __file__, "--answer", far.to_argument()], [far])
    try:
        yield endpoint, wakeup
    finally:
        endpoint.close()
        if thread is not None:
            thread.join(TIMEOUT)
        if child is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(TIMEOUT)
            child.kill()
            child.wait()


def throughput(placement: str, records: int, size: int) -> float:
    """Return the records per second of one stream with credit-based flow control."""
    payload = bytes(size)
    with far_side(placement) as (endpoint, wakeup):
        endpoint.open(1)
        wait(wakeup, endpoint)
        started = time.perf_counter()
        sent = 0
        while sent < records:
            endpoint.receive()
            for _ in range(min(endpoint.credit(1), records - sent)):
                endpoint.send(1, payload, 1)
                sent += 1
            wait(wakeup, endpoint)
        while endpoint.credit(1) < WINDOW:
            endpoint.receive()
            if endpoint.credit(1) < WINDOW:
                wait(wakeup, endpoint)
        return records / (time.perf_counter() - started)


def round_trips(placement: str, count: int, size: int) -> list[float]:
    """Return the round-trip times in seconds of single records with an idle far side."""
    payload = bytes(size)
    times = []
    with far_side(placement) as (endpoint, wakeup):
        endpoint.open(0)
        for _ in range(count):
            started = time.perf_counter()
            endpoint.send(0, payload, 0)
            while not any(record.kind is Kind.DATA for record in endpoint.receive()):
                wait(wakeup, endpoint)
            times.append(time.perf_counter() - started)
    return times


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--round-trips", type=int, default=5_000)
    parser.add_argument("--answer", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.answer:
        run_far_side(Side.from_argument(args.answer))
        return

    print(f"{'placement':10} {'payload':>9} {'records/s':>10} {'MB/s':>7}   {'round trip':>14} {'p99':>9}")
    for placement in ("process", "thread"):
        for size in (FRAME, FRAME_WITH_AUDIO):
            rate = throughput(placement, args.records, size)
            trips = round_trips(placement, args.round_trips, size)
            p99 = statistics.quantiles(trips, n=100)[98]
            print(
                f"{placement:10} {size:7} B {rate:10,.0f} {rate * size / 1e6:7,.0f}   "
                f"{statistics.median(trips) * 1e6:11,.0f} us {p99 * 1e6:6,.0f} us"
            )


if __name__ == "__main__":
    main()
