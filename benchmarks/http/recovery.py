"""Measures how long a server takes to recover after its engine or its HTTP process was killed or stopped.

    python -m benchmarks.http.recovery [--config FILE] [--model FOLDER] [--rounds 1] [--json FILE]

Starts one server and injects three faults in turn, each while one client streams speech: SIGKILL to the engine process,
SIGSTOP to the engine process, SIGKILL to the HTTP process. Prints for each the seconds until ``/ready`` answered 503
(or the connection failed) for the first time, until it answered 200 again, and until a new request had its first
audio; and the seconds from the start of the server to ready. SIGSTOP includes ``engine.stall_seconds``.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from benchmarks.lib.processes import Processes, processes
from benchmarks.lib.report import machine
from benchmarks.lib.serving import ROOT, running_server, supervisor_process

_TIMEOUT_S = 300.0
_POLL_S = 0.02
_SPEECH = "/v1/audio/speech"
_TEXT = "This sentence is repeated again and again while the server loses one of its processes. " * 8

FAULTS: dict[str, tuple[Callable[[Processes], int], signal.Signals]] = {
    "engine killed": (lambda server: server.engine[0].pid, signal.SIGKILL),
    "engine stopped": (lambda server: server.engine[0].pid, signal.SIGSTOP),
    "HTTP process killed": (lambda server: server.http.pid, signal.SIGKILL),
}


@dataclass(frozen=True)
class Recovery:
    """Seconds from the fault until each event."""

    fault: str
    unready: float
    ready: float
    first_audio: float


def recover(address: str, pid: int, fault: str) -> Recovery:
    """Inject ``fault`` into the server with the supervisor ``pid`` during a stream, and wait until it streams again."""
    find, number = FAULTS[fault]
    target = find(processes(pid))
    speaking = threading.Event()
    threading.Thread(target=_stream_speech, args=(address, speaking), daemon=True).start()
    if not speaking.wait(_TIMEOUT_S):
        raise TimeoutError(f"no audio within {_TIMEOUT_S:g} s before the fault")
    began = time.monotonic()
    os.kill(target, number)
    unready = _until(address, began, ready=False)
    ready = _until(address, began, ready=True)
    again = threading.Event()
    threading.Thread(target=_stream_speech, args=(address, again), daemon=True).start()
    if not again.wait(_TIMEOUT_S):
        raise TimeoutError(f"no audio within {_TIMEOUT_S:g} s after the fault")
    return Recovery(fault, unready, ready, time.monotonic() - began)


def _stream_speech(address: str, speaking: threading.Event) -> None:
    """Stream a long text until the connection breaks. Set ``speaking`` at the first audio."""
    body = {"input": _TEXT, "response_format": "pcm"}
    with (
        suppress(httpx.HTTPError),
        httpx.Client(base_url=address, timeout=_TIMEOUT_S) as client,
        client.stream("POST", _SPEECH, json=body) as response,
    ):
        for _ in response.iter_raw():
            speaking.set()


def _until(address: str, began: float, *, ready: bool) -> float:
    """Return the seconds from ``began`` until ``/ready`` answers 200, or anything else if ``ready`` is false."""
    while (now := time.monotonic() - began) < _TIMEOUT_S:
        try:
            is_ready = httpx.get(f"{address}/ready", timeout=_TIMEOUT_S).status_code == 200
        except httpx.HTTPError:
            is_ready = False
        if is_ready is ready:
            return time.monotonic() - began
        time.sleep(_POLL_S)
    raise TimeoutError(f"/ready {'never' if ready else 'always'} answered 200 within {now:.0f} s")


def main() -> None:
    """Start a server, inject the faults and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "pocket.yaml")
    parser.add_argument("--model", help="a checkpoint that replaces the one in the configuration")
    parser.add_argument("--rounds", type=int, default=1, help="number of times that each fault is injected")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    args = parser.parse_args()
    flags = ["--model", args.model] if args.model else []
    recoveries: list[Recovery] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        running_server(args.config, Path(folder, "log"), *flags) as (address, start),
    ):
        print(f"{machine()}\nstart to ready: {start:.1f} s\n| fault | 503 after, s | 200 after, s | audio after, s |")
        print("|---|---|---|---|", flush=True)
        for fault in FAULTS:
            for _ in range(args.rounds):
                each = recover(address, supervisor_process().pid, fault)
                recoveries.append(each)
                print(f"| {fault} | {each.unready:.1f} | {each.ready:.1f} | {each.first_audio:.1f} |", flush=True)
    if args.json:
        figures = {"machine": machine(), "start": start, "faults": [asdict(each) for each in recoveries]}
        args.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
