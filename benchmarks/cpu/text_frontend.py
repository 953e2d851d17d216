"""Measures the cost of the text front end, on one thread: ``python -m benchmarks.cpu.text_frontend``.

Prints milliseconds of CPU time of the thread: for a thousand characters of plain prose, of a chat reply in Markdown, of
text full of numbers, and of all items of the tests one after the other; for one text of 200 characters of each kind;
and, in processes of their own, for the import and for ``warm_up``. Best of ``--rounds``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

from server.text.frontend import spoken, warm_up
from tests.unit.text.readings import CLASSES, items

PROSE = (
    "The ferry leaves the harbor at noon and comes back before dark. Nobody remembered where the old map was kept, but "
    "the librarian found a letter between two dusty atlases. She wrapped the warm bread in a towel, set it on the "
    'table and waited. "You should taste the soup before you add any more salt," he said. '
)
CHAT = (
    "Sure! Here are **three tips** for a better sleep:\n\n1. **Keep a schedule** - go to bed at the same time, even on "
    "weekends.\n2. Avoid *screens* for about 30 minutes before bed.\n3. Keep the room cool, dark & quiet.\n\nIf it "
    "does not help, see [this guide](https://example.com/sleep) or ask Dr. Smith. 😊\n\n"
)
NUMBERS = (
    "On March 3, 2021 at 9:30am the total was $1,234.56, up 3.5% from 2020. Call (212) 555-0187 or mail info@acme.com "
    "before 5 p.m. to order 16GB of RAM, 2.5 kg of flour and 10-20 boxes. The Lakers won 98-95 in the 3rd game vs. the "
    "Bulls. "
)
KINDS = {"prose": PROSE, "chat reply": CHAT, "numbers": NUMBERS}
TIMED_IMPORT = """
import time
start = time.perf_counter()
import server.text.frontend as frontend
imported = time.perf_counter()
frontend.warm_up()
print(imported - start, time.perf_counter() - imported)
"""


def milliseconds(text: str, rounds: int) -> float:
    """Return the least CPU time of ``rounds`` runs over ``text``."""
    times = []
    for _ in range(rounds):
        began = time.thread_time()
        spoken(text, "english")
        times.append(time.thread_time() - began)
    return 1000 * min(times)


def startup(rounds: int) -> tuple[float, float]:
    """Return the milliseconds of the import and of ``warm_up`` in a new process."""
    runs = [
        [
            1000 * float(part)
            for part in subprocess.check_output([sys.executable, "-c", TIMED_IMPORT], text=True).split()
        ]
        for _ in range(rounds)
    ]
    return min(run[0] for run in runs), min(run[1] for run in runs)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    warm_up()
    typed = "\n\n".join(item.typed for name in CLASSES for item in items(name))
    print(f"{'ms':24} {'1,000 characters':>18} {'one of 200':>12}")
    for kind, text in KINDS.items():
        long = (text * (8000 // len(text) + 1))[:8000]
        print(f"{kind:24} {milliseconds(long, rounds) / 8:18.2f} {milliseconds(text[:200], rounds):12.2f}")
    print(f"{'all items of the tests':24} {milliseconds(typed, min(rounds, 3)) / len(typed) * 1000:18.2f}")
    imported, warmed = startup(min(rounds, 5))
    print(f"import {imported:.0f} ms, warm_up {warmed:.0f} ms")


if __name__ == "__main__":
    main()
