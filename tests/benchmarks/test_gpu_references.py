"""``benchmarks.gpu.references`` prints a row for every number and length of recordings."""

from __future__ import annotations

import sys

import pytest

from benchmarks.gpu import references as gpu_references


def test_every_number_and_length_has_a_row(checkpoints, monkeypatch, capsys) -> None:
    folder = str(checkpoints["0b6-base"])
    arguments = f"{folder} --device cpu --counts 1 3 --seconds 0.5 5 --repeats 1".split()
    monkeypatch.setattr(sys, "argv", ["gpu_references", *arguments])
    monkeypatch.setattr(
        gpu_references, "prepare_torch", lambda config: None
    )  # the threads of this process are configured already
    gpu_references.main()
    lines = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")][1:]
    assert [(number.lstrip("| "), length) for number, length, *_ in lines] == [
        ("1", "0.5"), ("3", "0.5"), ("1", "5"), ("3", "5")
    ] * 2  # fmt: skip
    assert [line[2] for line in lines] == ["x-vector"] * 4 + ["in context"] * 4
    assert [line[5] for line in lines] == ["1", "3", "1", "3"] * 2


def test_a_checkpoint_that_cannot_clone_is_reported(checkpoints, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["gpu_references", str(checkpoints["1b7-custom_voice"]), "--device", "cpu"])
    monkeypatch.setattr(gpu_references, "prepare_torch", lambda config: None)
    with pytest.raises(SystemExit, match="cannot clone"):
        gpu_references.main()
