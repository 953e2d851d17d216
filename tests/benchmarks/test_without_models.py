"""``benchmarks.http.without_models``, ``benchmarks.gpu.engine_alone`` and ``benchmarks.gpu.start`` as processes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.support.random_checkpoint import write_checkpoint

ROOT = Path(__file__).parents[2]
FIGURES = re.compile(r"first chunk ([\d.,]+) / ([\d.,]+) ms, ([\d,]+) audio s/s")


def run(*words: str | Path) -> str:
    """Run a module of ``benchmarks`` and return what it prints."""
    command = [sys.executable, "-m", *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_load_has_a_line() -> None:
    loads = ("--load", "-c 2 -n 40", "--load", "-c 4 -n 40")
    printed = run("benchmarks.http.without_models", "--slots", "4", "--step-ms", "5", "--batch-ms", "1", *loads)
    lines = [line for line in printed.splitlines() if FIGURES.search(line)]
    assert [line.partition(":")[0] for line in lines] == ["2 at once", "4 at once"]
    for line in lines:
        found = FIGURES.search(line)
        assert found is not None
        assert all(float(figure.replace(",", "")) > 0 for figure in found.groups())


def test_the_engine_alone_speaks_all_utterances(tmp_path: Path) -> None:
    checkpoint, results = tmp_path / "checkpoint", tmp_path / "results.json"
    write_checkpoint(checkpoint, "0b6-custom_voice")
    options = ("--config", "pocket", "--at-once", "1", "2", "--each", "2", "--json", results)
    run("benchmarks.gpu.engine_alone", checkpoint, *options)
    loads = json.loads(results.read_text())["loads"]
    assert [each["at_once"] for each in loads] == [1, 2]
    assert all(each["audio"] > 0 and 0 < each["first_ms"] <= each["p95_ms"] for each in loads)


def test_each_start_has_a_time(tmp_path: Path) -> None:
    checkpoint, results = tmp_path / "checkpoint", tmp_path / "results.json"
    write_checkpoint(checkpoint, "0b6-custom_voice")
    printed = run("benchmarks.gpu.start", checkpoint, "--config", "pocket", "--starts", "2", "--json", results)
    assert len(re.findall(r"^start \d: ready after [\d.]+ s$", printed, re.MULTILINE)) == 2
    assert all(seconds > 0 for seconds in json.loads(results.read_text())["seconds"])
