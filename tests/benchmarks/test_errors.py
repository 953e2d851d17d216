"""Numerical errors of the dtypes: a coarser dtype has a larger error."""

from __future__ import annotations

import pytest
import torch

from benchmarks.gpu import code2wav_errors
from benchmarks.gpu.fp8_checkpoint import write_fp8_checkpoint
from benchmarks.gpu.predictor_errors import Float32Reference, checkpoint_weights, errors_of
from engine.checkpoint.architecture import Transformer
from engine.checkpoint.folder import open_checkpoint
from engine.talker.fused.fp8 import round_to_fp8
from tests.support.code_predictors import random_weights
from tests.support.random_checkpoint import RandomCheckpoints

CPU = torch.device("cpu")
SMALL = Transformer(hidden=64, intermediate=96, layers=2, heads=4, kv_heads=2, head_dim=16, rope_theta=1e6, eps=1e-6)


def weights(dtype: torch.dtype):
    return random_weights(SMALL, vocab=64, codebooks=4, talker_hidden=96, dtype=dtype)


def test_errors_of_the_code_predictors_logits() -> None:
    exact, served = weights(torch.float32), weights(torch.bfloat16)
    reference = Float32Reference(exact, 24)
    same, half, eight = (reference.reference_errors(each) for each in (exact, served, round_to_fp8(served)))
    assert (same.largest, same.likeliest) == (0.0, 1.0)
    assert 1e-3 < half.of_all < 2e-2
    assert 2e-2 < eight.of_all < 0.3
    assert half.median < half.largest
    assert eight.likeliest < half.likeliest <= 1
    assert "%" in str(half)


def test_a_single_wrong_logit_is_the_largest_error() -> None:
    exact = torch.ones(2, 3, 4)
    exact[..., 0] = 2
    logits = exact.clone()
    logits[1, 2, 3] = 3
    errors = errors_of(logits, exact)
    assert (errors.median, errors.likeliest) == (0.0, 5 / 6)
    assert errors.largest == pytest.approx(2 / 1.75**0.5)


def test_an_fp8_checkpoint_has_the_rounded_matrices(checkpoints: RandomCheckpoints, tmp_path) -> None:
    before, folder = checkpoints["1b7-base"], tmp_path / "fp8"
    write_fp8_checkpoint(before, folder)
    original, fp8 = (checkpoint_weights(open_checkpoint(each), CPU, torch.bfloat16) for each in (before, folder))
    expected = round_to_fp8(original)
    for name in ("project", "qkv", "out", "gate_up", "down", "heads", "inputs", "tables", "norm"):
        assert torch.equal(getattr(fp8, name), getattr(expected, name)), name
    assert not torch.equal(fp8.heads, original.heads)


def test_errors_of_code2wavs_samples(checkpoints: RandomCheckpoints, capsys) -> None:
    code2wav_errors.print_errors(str(checkpoints["pocket"]), torch.device("cpu"), 5, [1, 3])
    _, _, *lines = capsys.readouterr().out.splitlines()
    names, *columns = zip(*(line.strip("| ").split(" | ") for line in lines), strict=True)
    assert names == ("float16", "bfloat16", "float32")
    assert len(columns) == 2
    for float16, bfloat16, float32 in (map(float, column) for column in columns):
        assert float32 > 90 > float16 > bfloat16 + 10 > 20
