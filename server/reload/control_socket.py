"""The name of the socket on which a server accepts ``sonant reload``."""

from __future__ import annotations

from pathlib import Path


def socket_name(pid: int) -> str:
    """Return the name of the socket of the server whose supervisor has the process id ``pid``.

    It is in Linux's abstract namespace: it needs no writable folder, and disappears with the server. That namespace may
    be shared between containers, where several servers have the process id 1, so the name contains the PID namespace.
    """
    return f"\0sonant/{_pid_namespace()}/{pid}"


def running_servers() -> list[int]:
    """Return the process ids of the supervisors of all servers in this PID namespace. Raises OSError."""
    prefix = f"@sonant/{_pid_namespace()}/"
    names = (line.rpartition(" ")[2] for line in Path("/proc/net/unix").read_text().splitlines())
    return sorted({int(name.removeprefix(prefix)) for name in names if name.startswith(prefix)})


def _pid_namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino
