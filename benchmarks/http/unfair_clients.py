"""Measures how long requests wait while slow or greedy clients hold every slot of the engine.

    python -m benchmarks.http.unfair_clients [--slots 8] [--settle 30] [--requests 1] [--most 150]

Each attack runs on its own server with a small random checkpoint and default limits:

- ``trickle``: live sessions that send one word every 10 s;
- ``slow``: streams whose client reads 4,000 bytes per second, a twelfth of real time;
- ``hog``: one client, 127.0.0.1, that reads in real time and keeps as many requests open as the server accepts; the
  other client, 127.0.0.2, comes last.

After ``--settle`` seconds another client requests short utterances, one after another. Prints how many of them were
answered with which status, and the median and the maximum of the seconds until they were complete or until the timeout
``--most``.
"""

from __future__ import annotations

import argparse
import json
import math
import socket
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import yaml
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from benchmarks.lib import serving
from tests.support.random_checkpoint import write_checkpoint

_SPEECH = "/v1/audio/speech"
_ENDLESS = {"temperature": 0, "subtalker_temperature": 0, "repetition_penalty": 0.1, "max_new_tokens": 4000}
"""Sampling that makes a random checkpoint speak for minutes: a penalty below 1 makes repeated codes more likely."""
_PCM_BYTES_PER_S = 48_000


def trickle(address: str, stop: threading.Event) -> None:
    """Run one live session that sends a word every 10 s."""
    try:
        with connect(address.replace("http", "ws", 1) + f"{_SPEECH}/stream", ping_interval=None) as session:
            config = {"type": "session.config", "response_format": "pcm", **_ENDLESS}
            session.send(json.dumps(config))
            sent = -math.inf
            while not stop.is_set():
                if time.monotonic() - sent > 10.0:
                    session.send(json.dumps({"type": "input.text", "text": "word "}))
                    sent = time.monotonic()
                with suppress(TimeoutError):
                    session.recv(timeout=1.0)
    except (WebSocketException, OSError):
        return


def slow(address: str, stop: threading.Event) -> None:
    """Read one stream at 4,000 bytes per second."""
    _read(address, stop, rate=4000, window=16_384)


def hog(address: str, stop: threading.Event) -> None:
    """Read one stream in real time."""
    _read(address, stop, rate=_PCM_BYTES_PER_S, window=65_536)


def _read(address: str, stop: threading.Event, rate: int, window: int) -> None:
    url = urlsplit(address)
    body = json.dumps({"input": "Hello there.", "response_format": "pcm", **_ENDLESS}).encode()
    head = f"POST {_SPEECH} HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Type: application/json\r\n"
    try:
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
            connection.connect((url.hostname, url.port))
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            while not stop.wait(0.5) and connection.recv(rate // 2, socket.MSG_WAITALL):
                pass
    except OSError:
        return


def measure_waits(attack: Callable[[str, threading.Event], None], clients: int, args: argparse.Namespace) -> str:
    """Run ``attack``. Return the statuses of another client's responses, and the seconds until they were complete."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "checkpoint").mkdir()
        write_checkpoint(folder / "checkpoint", "pocket")
        model = {"model": str(folder / "checkpoint"), "device": "cpu", "threads": 1, "talker": {"slots": args.slots}}
        (folder / "config.yaml").write_text(yaml.safe_dump({"engine": model}))
        stop = threading.Event()
        with serving.running_server(folder / "config.yaml", folder / "log") as (address, _):
            threads = [threading.Thread(target=attack, args=(address, stop)) for _ in range(clients)]
            for thread in threads:
                thread.start()
            time.sleep(args.settle)
            waits = [_request(address, args.most) for _ in range(args.requests)]
            stop.set()
        for thread in threads:
            thread.join()
    statuses = Counter(status for status, _ in waits)
    seconds = [wait for _, wait in waits]
    counts = ", ".join(f"{count} x {status}" for status, count in statuses.items())
    return f"{counts}; seconds: median {statistics.median(seconds):.1f}, maximum {max(seconds):.1f}"


def _request(address: str, timeout: float) -> tuple[str, float]:
    """Request a short utterance as another client. Return the status, and the seconds until it was complete."""
    body = {"input": "Hello there.", "response_format": "pcm", "max_new_tokens": 24}
    began = time.perf_counter()
    try:
        other = httpx.HTTPTransport(local_address="127.0.0.2")
        with httpx.Client(base_url=address, transport=other, timeout=timeout) as client:
            status = str(client.post(_SPEECH, json=body).status_code)
    except httpx.TimeoutException:
        status = "no answer"
    return status, time.perf_counter() - began


def main() -> None:
    """Print one line per attack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slots", type=int, default=8, help="number of engine slots")
    parser.add_argument("--settle", type=float, default=30.0, help="seconds until the first request")
    parser.add_argument("--requests", type=int, default=1, help="number of requests of the other client")
    parser.add_argument("--most", type=float, default=150.0, help="timeout of each request in seconds")
    parser.add_argument("--attacks", nargs="*", default=["trickle", "slow", "hog"])
    args = parser.parse_args()
    for attack, clients in ((trickle, args.slots), (slow, args.slots), (hog, args.slots + 56)):
        if attack.__name__ in args.attacks:
            print(f"{attack.__name__:8} {clients:3} clients: {measure_waits(attack, clients, args)}", flush=True)


if __name__ == "__main__":
    main()
