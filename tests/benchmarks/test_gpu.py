"""``benchmarks.gpu.run``: the output of each part is kept, and a part that fails or hangs does not stop the others."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.gpu import run as gpu
from benchmarks.gpu.run import PARTS, Part


def test_every_part_runs_and_failures_are_listed_at_the_end(monkeypatch, tmp_path: Path, capsys) -> None:
    parts = {
        "hangs": Part("http.server 0 --bind 127.0.0.1", 1),
        "fails": Part("calendar never", 20),
        "writes": Part("json.tool --sort-keys {named}/config.json {json}", 20),
        "unwritten": Part("json.tool {clones}/config.json {json}", 20),
        "skipped": Part("calendar", 20, gpus=2),
        "environment": Part("timeit -n1 -r1 print(__import__('os').environ['VALUE'])", 20, {"VALUE": "of the part"}),
    }
    monkeypatch.setattr(gpu, "PARTS", parts)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    checkpoint = tmp_path / "full" / "1.7b-custom_voice"
    checkpoint.mkdir(parents=True)
    (checkpoint / "config.json").write_text('{"b": 1, "a": 2}')
    (tmp_path / "full" / "1.7b-base").write_text("no folder")
    out = tmp_path / "out"
    monkeypatch.setattr(sys, "argv", ["gpu", str(out), "--checkpoints", str(tmp_path / "full")])
    with pytest.raises(SystemExit) as ended:
        gpu.main()
    assert ended.value.code
    *_, hangs, fails, writes, unwritten, skipped, environment = capsys.readouterr().out.splitlines()
    assert hangs.startswith("hangs: FAILED (-15)")
    assert fails.startswith("fails: FAILED")
    assert "never" in (out / "fails.txt").read_text()
    assert writes.startswith("writes: done")
    assert (out / "writes.json").read_text().index('"a"') < (out / "writes.json").read_text().index('"b"')
    assert unwritten.startswith("unwritten: FAILED (1)")
    assert "NotADirectoryError" in (out / "unwritten.txt").read_text()
    assert skipped == "skipped: skipped, needs 2 GPUs, found 1"
    assert environment.startswith("environment: done")
    assert "of the part" in (out / "environment.txt").read_text()


@pytest.mark.filterwarnings("ignore:.* found in sys.modules")  # other modules of the benchmarks import it
@pytest.mark.parametrize("name", [name for name, part in PARTS.items() if part.command.startswith("benchmarks.")])
def test_the_options_of_every_part_exist(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--help`` succeeds only if the options before it are valid."""
    if name == "predictor":
        pytest.importorskip("triton")
    values = dict.fromkeys(("json", "minutes", *gpu._CHECKPOINTS), "1")
    command = PARTS[name].command.removeprefix("benchmarks.lib.mps ").format_map(values).split()
    monkeypatch.setattr(sys, "argv", [*command, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(command[0], run_name="__main__")
    assert ended.value.code == 0
