"""The peer processes of the transfer tests: ``transfer_peer.py ROLE SIDE... [OPTIONS]``."""

import argparse
import json
import random
import sys
import time

from engine.transfer import Kind, Side, Wakeup

TIMEOUT = 20.0
NUMBER_BYTES = 8


def wait_for(wakeup, predicate):
    """Wait; treat a wakeup that takes the whole timeout as lost, even if the last check then finds something."""
    started = time.monotonic()
    if not wakeup.wait_for(predicate, TIMEOUT) or time.monotonic() - started >= TIMEOUT:
        raise SystemExit("lost wakeup")


def payload_of(number, size):
    """Return the number, then ``size`` bytes that depend on it: a stale byte in a payload is detected."""
    return (number.to_bytes(NUMBER_BYTES) * (size // NUMBER_BYTES + 2))[: NUMBER_BYTES + size]


class Pauses:
    """Random sleeps and busy loops, so that the two sides meet in every phase."""

    def __init__(self, options, seed):
        self._random = random.Random(seed)
        self._every = options.every
        self._spin = options.spin

    def maybe(self):
        if self._random.random() * self._every < 1:
            time.sleep(self._random.random() * 0.002)
        elif self._spin:
            end = time.perf_counter() + self._random.random() * self._spin
            while time.perf_counter() < end:
                pass


def produce(options):
    """Send numbered records to the streams in turn, as credit allows."""
    wakeup, pauses = Wakeup(), Pauses(options, 1)
    with Side.from_argument(options.sides[0]).attach(wakeup) as endpoint:
        for stream in range(options.streams):
            endpoint.open(stream)
        left = [options.records // options.streams] * options.streams

        def sendable():
            return not endpoint.alive or any(
                left[stream] and endpoint.credit(stream) for stream in range(options.streams)
            )

        while any(left):
            wait_for(wakeup, sendable)
            for stream in range(options.streams):
                for _ in range(min(left[stream], endpoint.credit(stream))):
                    endpoint.send(stream, payload_of(left[stream], options.size), 1)
                    left[stream] -= 1
                    pauses.maybe()
        for stream in range(options.streams):
            endpoint.end(stream)
        wait_for(wakeup, lambda: not endpoint.alive)


def consume(options):
    """Read every record, check its position and content, and print the count of each stream."""
    wakeup, pauses = Wakeup(), Pauses(options, 2)
    counts, ended = [0] * options.streams, 0
    with Side.from_argument(options.sides[0]).attach(wakeup) as endpoint:
        while ended < options.streams:
            wait_for(wakeup, endpoint.pending)
            for record in endpoint.receive():
                if record.kind is Kind.DATA:
                    expected = options.records // options.streams - counts[record.stream]
                    assert record.payload == payload_of(expected, options.size)
                    counts[record.stream] += 1
                    endpoint.release(record.stream, record.units)
                    pauses.maybe()
                else:
                    assert record.kind in (Kind.OPEN, Kind.END), record.kind
                    ended += record.kind is Kind.END
    print(json.dumps(counts))


def echo(options):
    """Echo each DATA on a stream with the same number; end it on END."""
    wakeup = Wakeup()
    with Side.from_argument(options.sides[0]).attach(wakeup) as endpoint:
        while endpoint.alive:
            wakeup.wait_for(endpoint.pending)
            for record in endpoint.receive():
                if record.kind is Kind.OPEN:
                    endpoint.open(record.stream, record.payload)
                elif record.kind is Kind.DATA:
                    endpoint.release(record.stream, record.units)
                    endpoint.send(record.stream, record.payload, record.units)
                elif record.kind is Kind.END:
                    endpoint.end(record.stream)


def witness(options):
    """Report on the first link, as DATA of stream 0, everything received on the second."""
    wakeup = Wakeup()
    sides = [Side.from_argument(word).attach(wakeup) for word in options.sides]
    report, watched = sides
    report.open(0)
    for stream in options.open:
        watched.open(stream)
    while report.alive:
        wakeup.wait_for(lambda: report.pending() or watched.pending())
        report.receive()
        for record in watched.receive():
            event = {"stream": record.stream, "kind": record.kind.name, "at": time.monotonic()}
            report.send(0, json.dumps(event).encode(), 0)


def idle(options):
    """Wait without events on every link, then print the CPU time this took."""
    wakeup = Wakeup()
    sides = [Side.from_argument(word).attach(wakeup) for word in options.sides]
    wait_for(wakeup, lambda: all(endpoint.pending() for endpoint in sides))
    for endpoint in sides:
        endpoint.receive()
    before = time.process_time()
    wakeup.wait_for(lambda: False, options.seconds)
    print(json.dumps(time.process_time() - before))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["produce", "consume", "echo", "witness", "idle"])
    parser.add_argument("sides", nargs="+")
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--records", type=int, default=0)
    parser.add_argument("--size", type=int, default=0)
    parser.add_argument("--every", type=int, default=1000)
    parser.add_argument("--spin", type=float, default=0.0)
    parser.add_argument("--open", type=int, nargs="*", default=[])
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_intermixed_args()
    getattr(sys.modules[__name__], options.role)(options)


if __name__ == "__main__":
    main()
