"""Resource usage of a running server, as reported by the operating system."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from benchmarks.lib.processes import Processes, processes
from benchmarks.lib.serving import TIMEOUT_S, supervisor_process

_POLL_S = 1.0


@dataclass(frozen=True)
class ResourceUsage:
    """The resources that a server uses at one moment.

    pids, resident_mib, cpu_seconds: process ids, resident memory in MiB and CPU seconds so far, first of the HTTP
        process, then of the engine process and the others.
    files, threads: number in all processes. shared: number of processes with shared-memory mappings (memfd).
    connections: established connections of the HTTP process.
    """

    pids: tuple[int, ...]
    resident_mib: tuple[float, ...]
    cpu_seconds: tuple[float, ...]
    files: int
    threads: int
    shared: int
    connections: int


def resource_usage(server: Processes) -> ResourceUsage:
    """Return the resources that the server uses now."""
    family = server.all
    return ResourceUsage(
        pids=tuple(process.pid for process in family),
        resident_mib=tuple(process.memory_info().rss / 2**20 for process in family),
        cpu_seconds=tuple(sum(process.cpu_times()[:2]) for process in family),
        files=sum(process.num_fds() for process in family),
        threads=sum(process.num_threads() for process in family),
        shared=sum("memfd:" in Path(f"/proc/{process.pid}/maps").read_text() for process in family),
        connections=sum(each.status == psutil.CONN_ESTABLISHED for each in server.http.net_connections("tcp")),
    )


class Server:
    """A server at ``address`` that this process has started."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._process = supervisor_process()

    def usage(self) -> ResourceUsage:
        """Return the resources that it uses now."""
        return resource_usage(processes(self._process.pid))

    async def wait_until_idle(self) -> dict[str, int]:
        """Wait until the server is idle, for up to two minutes, and return the resources in use."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            in_use = await self._in_use()
            await asyncio.sleep(_POLL_S)
            usage = self.usage()
            if (usage.connections == 0 and not any(in_use.values())) or time.monotonic() > deadline:
                return in_use | {"connections": usage.connections, "files": usage.files, "threads": usage.threads}

    async def _in_use(self) -> dict[str, int]:
        async with httpx.AsyncClient(base_url=self.address, timeout=TIMEOUT_S) as client:
            ready = (await client.get("/ready")).raise_for_status().json()
        engine = ready["engine"]
        names = ("talker_slots", "talker_waiting", "code2wav_rows")
        own_request = 1
        streams = max(0, engine["client_streams"] - own_request)
        return {name: engine[name] for name in names} | {"requests": ready["requests"], "streams": streams}
