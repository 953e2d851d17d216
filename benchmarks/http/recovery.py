"""How long a server takes to answer again after its engine or its HTTP process was killed or stopped.

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
from benchmarks.lib.serving import ROOT, served, started

_LONGEST_S = 300.0
_POLL_S = 0.02
_SPEECH = "/v1/audio/speech"
_TEXT = "This sentence is said again and again while the server loses one of its processes. " * 8

FAULTS: dict[str, tuple[Callable[[Processes], int], signal.Signals]] = {
    "engine killed": (lambda server: server.engine[0].pid, signal.SIGKILL),
    "engine stopped": (lambda server: server.engine[0].pid, signal.SIGSTOP),
    "HTTP process killed": (lambda server: server.http.pid, signal.SIGKILL),
}


@dataclass(frozen=True)
class Recovery:
    """Seconds since the fault."""

    fault: str
    unready: float
    ready: float
    first_audio: float


def recover(address: str, pid: int, fault: str) -> Recovery:
    """Inject ``fault`` into the server whose supervisor is ``pid`` while it speaks, and wait until it speaks again."""
    find, number = FAULTS[fault]
    target = find(processes(pid))
    speaking = threading.Event()
    threading.Thread(target=_listen, args=(address, speaking), daemon=True).start()
    if not speaking.wait(_LONGEST_S):
        raise TimeoutError("no audio before the fault")
    begun = time.monotonic()
    os.kill(target, number)
    unready = _until(address, begun, ready=False)
    ready = _until(address, begun, ready=True)
    again = threading.Event()
    threading.Thread(target=_listen, args=(address, again), daemon=True).start()
    if not again.wait(_LONGEST_S):
        raise TimeoutError("no audio after the fault")
    return Recovery(fault, unready, ready, time.monotonic() - begun)


def _listen(address: str, speaking: threading.Event) -> None:
    """Stream a long text until it is cut; set ``speaking`` at the first audio."""
    body = {"input": _TEXT, "response_format": "pcm"}
    with (
        suppress(httpx.HTTPError),
        httpx.Client(base_url=address, timeout=_LONGEST_S) as client,
        client.stream("POST", _SPEECH, json=body) as response,
    ):
        for _ in response.iter_raw():
            speaking.set()


def _until(address: str, begun: float, *, ready: bool) -> float:
    """Seconds from ``begun`` until ``/ready`` is, or is not, a 200."""
    while (now := time.monotonic() - begun) < _LONGEST_S:
        try:
            answered = httpx.get(f"{address}/ready", timeout=_LONGEST_S).status_code == 200
        except httpx.HTTPError:
            answered = False
        if answered is ready:
            return time.monotonic() - begun
        time.sleep(_POLL_S)
    raise TimeoutError(f"/ready {'never' if ready else 'always'} answered 200 for {now:.0f} s")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "pocket.yaml")
    parser.add_argument("--model", help="another checkpoint than the configuration's")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path, help="a file for the figures")
    given = parser.parse_args()
    flags = ["--model", given.model] if given.model else []
    found: list[Recovery] = []
    with tempfile.TemporaryDirectory() as folder, served(given.config, Path(folder, "log"), *flags) as (address, start):
        print(f"{machine()}\nstart to ready: {start:.1f} s\n| fault | 503 after, s | 200 after, s | audio after, s |")
        print("|---|---|---|---|", flush=True)
        for fault in FAULTS:
            for _ in range(given.rounds):
                each = recover(address, started().pid, fault)
                found.append(each)
                print(f"| {fault} | {each.unready:.1f} | {each.ready:.1f} | {each.first_audio:.1f} |", flush=True)
    if given.json:
        figures = {"machine": machine(), "start": start, "faults": [asdict(each) for each in found]}
        given.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
