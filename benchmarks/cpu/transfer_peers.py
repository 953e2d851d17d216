"""Measures how long an engine's thread takes to send to several processes while another thread computes.

    python -m benchmarks.cpu.transfer_peers [--peers 1 4 8] [--rounds 500]

A round sends one chunk of audio to each peer, as Code2Wav does after a batch. The peers are processes that wait for it,
so each must be woken. Another thread of this process runs Python code all the time, as the talker does between kernel
launches; threads take turns every 0.5 ms. Prints the median and the 95th percentile of a round, and how far the other
thread came, relative to its speed alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import threading
import time
from multiprocessing.synchronize import Event

from benchmarks.lib.report import machine
from engine.transfer import Kind, Side, Wakeup, first_stream, multi_pair

_CHUNK = bytes(15_000)
_PAUSE_S = 0.004
"""Time between rounds: that between batches of audio."""
_SWITCH_S = 0.0005
_WINDOW = 128
_RING_BYTES = 8 << 20
_TIMEOUT_S = 30.0


class Computing:
    """A thread that runs Python code and counts its loops."""

    def __init__(self) -> None:
        self.loops = 0
        self._stopped = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped:
            for _ in range(100):
                pass
            self.loops += 1

    def stop(self) -> None:
        """End the thread."""
        self._stopped = True
        self._thread.join()


def run_peer(side: Side, number: int, joined: Event) -> None:
    """Receive chunks and return their credit until the link ends."""
    wakeup = Wakeup()
    with side.attach(wakeup) as endpoint:
        if number == 0:
            joined.set()  # the first peer does not join
        while endpoint.alive:
            wakeup.wait_for(lambda: endpoint.pending() or not endpoint.alive)
            for record in endpoint.receive():
                if record.kind is Kind.DATA:
                    endpoint.release(record.stream, record.units)
                elif record.kind is Kind.END:
                    joined.set()


def loops_per_second(computing: Computing, seconds: float = 0.5) -> float:
    """Return the speed of a computing thread alone."""
    before = computing.loops
    time.sleep(seconds)
    return (computing.loops - before) / seconds


def measure(peers: int, rounds: int) -> None:
    """Measure with that many peers, and print the figures."""
    context = multiprocessing.get_context("fork")
    own, sides, joiner = multi_pair(window=_WINDOW, capacity=_RING_BYTES)
    processes = []
    with sides.attach(Wakeup()) as endpoint:
        for number in range(peers):
            side, joined = own if number == 0 else joiner.join(number), context.Event()
            processes.append(context.Process(target=run_peer, args=(side, number, joined), daemon=True))
            processes[-1].start()
            side.close()
            joined.wait(_TIMEOUT_S)
        streams = [first_stream(number) + 1 for number in range(peers)]
        for stream in streams:
            endpoint.open(stream)
        computing, times = Computing(), []
        alone = loops_per_second(computing)
        began, before = time.perf_counter(), computing.loops
        for _ in range(rounds):
            time.sleep(_PAUSE_S)
            endpoint.receive()
            started = time.perf_counter()
            endpoint.send_all((stream, _CHUNK, 1) for stream in streams)
            times.append(time.perf_counter() - started)
        share = (computing.loops - before) / (time.perf_counter() - began) / alone
        computing.stop()
    joiner.close()
    for process in processes:
        process.join(_TIMEOUT_S)
    tail = statistics.quantiles(times, n=20)[-1]
    print(
        f"{peers} peers: {statistics.median(times) * 1e6:,.0f} / {tail * 1e6:,.0f} us; other thread {share:.0%}",
        flush=True,
    )


def main() -> None:
    """Measure with each number of peers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--rounds", type=int, default=500)
    args = parser.parse_args()
    sys.setswitchinterval(_SWITCH_S)
    print("{cpu}, {cores} cores; Python {python}".format(**machine()), flush=True)
    for peers in args.peers:
        measure(peers, args.rounds)


if __name__ == "__main__":
    main()
