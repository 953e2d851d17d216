"""Results of a comparison, as tables and as JSON."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path

from benchmarks.versus.turns import Job, Turn

_TITLES = {
    "small": "Small random checkpoint, greedy",
    "full": "Full-size random 0.6B talker and predictor, greedy, cut at the frame limit",
    "code2wav": "Full-size random Code2Wav",
}
_NOTES = {
    "small": "first audio, whole: time from the text to the samples. The reference returns only the whole waveform.",
    "full": "first audio, whole: time from the text to the samples. The reference returns only the whole waveform;\n"
    "its bf16 run also decodes in bf16, which is slow on CPUs.",
    "code2wav": "Each chunk continues the previous one. The reference keeps no state and starts each from silence.",
}
_REFERENCE = "reference"


@dataclass(frozen=True)
class Contender:
    """One implementation in a comparison. name: in the table. module: the module that runs. job: its work."""

    name: str
    module: str
    job: Job


@dataclass
class Result:
    """The results of all turns of one contender.

    seconds: measurements by name. codes: of the last turn. peak_bytes: peak memory.
    """

    name: str
    threads: int
    seconds: dict[str, list[float]] = field(default_factory=dict)
    codes: list[list[int]] = field(default_factory=list)
    peak_bytes: int = 0

    def add(self, turn: Turn) -> None:
        """Add the results of one turn."""
        for name, seconds in turn.seconds.items():
            self.seconds.setdefault(name, []).extend(seconds)
        self.codes = turn.codes


def machine() -> dict[str, str | int]:
    """Return the properties of this machine that the results depend on, without its host name."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory_gib": round(memory / 2**30),
        "python": platform.python_version(),
        "torch": version("torch"),
    }


def machine_line(machine: dict[str, str | int]) -> str:
    """Return the properties of ``machine`` as one line."""
    return "{cpu}, {cores} cores, {memory_gib} GiB; Python {python}, torch {torch} for both".format(**machine)


def table(comparison: str, results: Sequence[Result]) -> str:
    """Return a table with one row per contender and number of threads, and the speedups over the reference.

    A speedup is the ratio of the best measurements.
    """
    measured = list(dict.fromkeys(name for result in results for name in result.seconds))
    frames = max(len(result.codes) for result in results)
    title = _TITLES[comparison] + (f", {frames} frames" if frames else "")
    head = f"{'':16}{'threads':>8}" + "".join(f"{f'{name}, ms':>22}" for name in measured) + f"{'peak, MiB':>11}"
    rows = [_row(result, measured) for result in results]
    ratios = [line for name in measured for line in _ratios(name, results)]
    lines = [title, head, *rows, "(best / median)", *ratios, _NOTES[comparison]]
    if frames:
        lines.append("codes of engine and fp32 reference: " + ("equal" if same_codes(results) else "DIFFERENT"))
    return "\n" + "\n".join(lines)


def same_codes(results: Sequence[Result]) -> bool:
    """Return whether all contenders with exact float32 arithmetic generated the same codes.

    References in bf16 and quantized weights round differently.
    """
    codes = [result.codes for result in results if not result.name.endswith(("bf16", "int8", "int4"))]
    return all(each == codes[0] for each in codes)


def write(file: Path, machine: dict[str, str | int], comparisons: dict[str, list[Result]]) -> None:
    """Write all measurements as JSON, in seconds and bytes."""
    rows = {name: [_fields(result) for result in results] for name, results in comparisons.items()}
    file.write_text(json.dumps({"machine": machine, "comparisons": rows}, indent=2) + "\n")


def _row(result: Result, measured: Sequence[str]) -> str:
    cells = [_cell(result.seconds.get(name)) for name in measured]
    return f"{result.name:16}{result.threads:8}{''.join(cells)}{result.peak_bytes / 2**20:11,.0f}"


def _cell(seconds: Sequence[float] | None) -> str:
    if seconds is None:
        return f"{'':>22}"
    return f"{f'{min(seconds) * 1e3:,.1f} / {statistics.median(seconds) * 1e3:,.1f}':>22}"


def _ratios(name: str, results: Sequence[Result]) -> list[str]:
    best: dict[str, float] = {}
    for result in results:
        if name in result.seconds:
            best[result.name] = min(best.get(result.name, float("inf")), *result.seconds[name])
    engine = [seconds for contender, seconds in best.items() if not contender.startswith(_REFERENCE)]
    return [
        f"{name}: {seconds / min(engine):.2f} times as fast as the {contender}"
        for contender, seconds in best.items()
        if engine and contender.startswith(_REFERENCE)
    ]


def _fields(result: Result) -> dict[str, object]:
    return {name: value for name, value in asdict(result).items() if name != "codes"} | {"frames": len(result.codes)}


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
