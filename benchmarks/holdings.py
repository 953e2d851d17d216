"""What processes hold, from /proc: memory, open files, threads."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Holdings:
    """Of some processes together. resident: MiB."""

    resident: float
    files: int
    threads: int

    def __str__(self) -> str:
        return f"{self.resident:,.0f} MiB, {self.files} files, {self.threads} threads"


def family(process: int) -> list[int]:
    """A process and all that come from it and are still there."""
    parents = {pid: parent for pid in _processes() if (parent := _parent(pid)) is not None}
    found = [process]
    for each in found:
        found += [pid for pid, parent in parents.items() if parent == each]
    return found


def holdings(processes: Collection[int]) -> Holdings:
    """Of those of ``processes`` that are still there."""
    statuses = [status for pid in processes if (status := _read(pid, "status"))]
    return Holdings(
        resident=sum(_number(status, "VmRSS") for status in statuses) / 1024,
        files=sum(_open_files(pid) for pid in processes),
        threads=sum(_number(status, "Threads") for status in statuses),
    )


def _processes() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal()]


def _parent(pid: int) -> int | None:
    status = _read(pid, "status")
    return _number(status, "PPid") if status else None


def _number(status: str, field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+)", status, re.MULTILINE)
    return int(found[1]) if found else 0


def _open_files(pid: int) -> int:
    try:
        return sum(1 for _ in (_PROC / str(pid) / "fd").iterdir())
    except OSError:
        return 0


def _read(pid: int, file: str) -> str:
    try:
        return (_PROC / str(pid) / file).read_text()
    except OSError:
        return ""
