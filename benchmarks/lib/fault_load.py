"""Clients that count what becomes of their requests while a benchmark injects faults."""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

TIMEOUT_S = 300.0
HEADER = """\
| fault | rounds | requests | lost before audio | cut | refused | recovery, s: median / max | left | errors |
|---|---|---|---|---|---|---|---|---|"""
_POLL_S = 0.05
_SETTLE_S = 10.0
"""Maximum time for the server to close the connections of the clients, before what is left is counted."""
_SPEECH = "/v1/audio/speech"
_TEXTS = ("Good morning.", "The train is late again.", "We will meet at noon, as we do every day.")


@dataclass
class Outcomes:
    """Requests of all rounds of one fault.

    lost_before_audio, cut: failed before or after their first audio. refused: no engine was ready (503).
    recovery_s: seconds from each fault until everything was ready again. left_behind: what there is more than before,
    such as processes. errors: number of failed requests, by error code.
    """

    fault: str
    completed: int = 0
    lost_before_audio: int = 0
    cut: int = 0
    refused: int = 0
    recovery_s: list[float] = field(default_factory=list)
    left_behind: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)

    def row(self) -> str:
        """Return the row of the table below ``HEADER``."""
        sent = self.completed + self.lost_before_audio + self.cut + self.refused
        times = f"{statistics.median(self.recovery_s):.1f} / {max(self.recovery_s):.1f}"
        left = ", ".join(f"{count:+d} {name}" for name, count in self.left_behind.items() if count > 0) or "nothing"
        cells = (self.fault, len(self.recovery_s), sent, self.lost_before_audio, self.cut, self.refused)
        errors = ", ".join(f"{code}: {count}" for code, count in sorted(self.errors.items())) or "none"
        return f"| {' | '.join(map(str, cells))} | {times} | {left} | {errors} |"


class Load:
    """Clients that send short requests one after another, in threads, until the context ends."""

    def __init__(self, address: str, clients: int) -> None:
        self._address = address
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(clients)]
        self.counts: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(TIMEOUT_S)

    def wait_for_requests(self, count: int) -> None:
        """Wait until ``count`` more requests are complete."""
        target = self.counts["completed"] + count
        wait_until(lambda: self.counts["completed"] >= target)

    def _run(self, number: int) -> None:
        with httpx.Client(base_url=self._address, timeout=TIMEOUT_S) as client:
            while not self._stop.is_set():
                outcome, code = _outcome(client, _TEXTS[number % len(_TEXTS)])
                with self._lock:
                    self.counts[outcome] += 1
                    self.errors.update([code] if code else [])
                if outcome != "completed":
                    time.sleep(_POLL_S)
                number += 1


def inject(
    fault: str,
    address: str,
    *,
    clients: int,
    rounds: int,
    break_one: Callable[[int], None],
    count: Callable[[], dict[str, int]],
) -> Outcomes:
    """Inject ``fault`` ``rounds`` times while ``clients`` clients send requests to ``address``.

    break_one: injects the fault of the given round, and returns when everything is ready again. count: counts what a
    fault could leave behind.
    """
    outcomes = Outcomes(fault)
    before = count()
    with Load(address, clients) as load:
        for number in range(rounds):
            load.wait_for_requests(2 * clients)
            began = time.monotonic()
            break_one(number)
            outcomes.recovery_s.append(time.monotonic() - began)
        load.wait_for_requests(clients)
    for name, requests in load.counts.items():
        setattr(outcomes, name, requests)
    outcomes.errors = dict(load.errors)
    deadline = time.monotonic() + _SETTLE_S
    while any((after := count())[name] > number for name, number in before.items()) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    outcomes.left_behind = {name: after[name] - number for name, number in before.items()}
    return outcomes


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until ``condition`` holds. Raises TimeoutError."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing recovered within {TIMEOUT_S:g} s")
        time.sleep(_POLL_S)


def _outcome(client: httpx.Client, text: str) -> tuple[str, str | None]:
    """Stream one request. Return what became of it, as the name of a field of ``Outcomes``, and its error code."""
    begun = False
    try:
        with client.stream("POST", _SPEECH, json={"input": text, "response_format": "pcm"}) as response:
            if response.status_code != 200:
                code = json.loads(response.read())["error"]["code"]
                refused = response.status_code == 503 and code != "engine_lost"
                return ("refused" if refused else "lost_before_audio"), code
            for _ in response.iter_raw():
                begun = True
    except httpx.HTTPError as error:
        return ("cut" if begun else "lost_before_audio"), type(error).__name__
    return "completed", None
