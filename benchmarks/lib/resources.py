"""Resource usage of a running server, as reported by the operating system."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from benchmarks.lib.processes import Processes, processes
from benchmarks.lib.serving import PATIENCE_S, started

_LOOK_S = 1.0


@dataclass(frozen=True)
class Held:
    """The resources that a server holds at one moment.

    processes, resident, worked: process ids, resident memory in MiB and CPU seconds so far, first of the HTTP process,
        then of the engine process and the others.
    files, threads: number in all processes. shared: number of processes with shared-memory mappings (memfd).
    connections: established connections of the HTTP process.
    """

    processes: tuple[int, ...]
    resident: tuple[float, ...]
    worked: tuple[float, ...]
    files: int
    threads: int
    shared: int
    connections: int


def held(server: Processes) -> Held:
    """Return the resources that the server holds now."""
    family = server.all
    return Held(
        processes=tuple(process.pid for process in family),
        resident=tuple(process.memory_info().rss / 2**20 for process in family),
        worked=tuple(sum(process.cpu_times()[:2]) for process in family),
        files=sum(process.num_fds() for process in family),
        threads=sum(process.num_threads() for process in family),
        shared=sum("memfd:" in Path(f"/proc/{process.pid}/maps").read_text() for process in family),
        connections=sum(each.status == psutil.CONN_ESTABLISHED for each in server.http.net_connections("tcp")),
    )


class Server:
    """A server at ``address`` that this process has started."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._process = started()

    def held(self) -> Held:
        """Return the resources that it holds now."""
        return held(processes(self._process.pid))

    async def at_rest(self) -> dict[str, int]:
        """Wait until the server is idle, for up to two minutes, and return the resources in use."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            used = await self._used()
            await asyncio.sleep(_LOOK_S)
            held = self.held()
            if (held.connections == 0 and not any(used.values())) or time.monotonic() > deadline:
                return used | {"connections": held.connections, "files": held.files, "threads": held.threads}

    async def _used(self) -> dict[str, int]:
        async with httpx.AsyncClient(base_url=self.address, timeout=PATIENCE_S) as client:
            ready = (await client.get("/ready")).raise_for_status().json()
        engine = ready["engine"]
        names = ("talker_slots", "talker_waiting", "code2wav_rows")
        own_question = 1
        streams = max(0, engine["client_streams"] - own_question)
        return {name: engine[name] for name in names} | {"requests": ready["requests"], "streams": streams}
