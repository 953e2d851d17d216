"""The floors of a frame, computed from the shapes, equal those of SPEC 10."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gpu.floor import Floor, first_code_floor, layers_floor, predictor_floor
from benchmarks.lib.fullsize import full_size_model
from engine.checkpoint.config import read_model
from engine.checkpoint.layout import model_shapes

TOKENS = ("assistant", "<|im_end|>", "<|im_start|>", "<tts_text_bos>", "<tts_text_eod>", "<tts_pad>")
BF16 = 2


@pytest.mark.parametrize(
    ("size", "talker_gb", "predictor_gb", "predictor_gflop", "milliseconds"),
    [("0.6b", 0.887, 2.422, 2.585, 0.70), ("1.7b", 2.831, 2.485, 2.652, 1.12)],
)
def test_one_row_reads_as_many_bytes_as_specified(
    size: str, talker_gb: float, predictor_gb: float, predictor_gflop: float, milliseconds: float
) -> None:
    config = full_size_model({token: number for number, token in enumerate(TOKENS)}, size)
    model = read_model(config, Path("config.json"))
    shapes = model_shapes(model)
    talker = layers_floor(model.talker, shapes, 1, 0, BF16) + first_code_floor(shapes, 1, BF16)
    predictor = predictor_floor(model.talker, shapes, 1, BF16)
    assert talker.bytes / 1e9 == pytest.approx(talker_gb, rel=0.01)
    assert predictor.bytes / 1e9 == pytest.approx(predictor_gb, rel=0.01)
    assert predictor.operations / 1e9 == pytest.approx(predictor_gflop, rel=0.01)
    step = layers_floor(model.talker, shapes, 1, 500, BF16) + first_code_floor(shapes, 1, BF16) + predictor
    assert step.milliseconds(bandwidth=4.8e12) == pytest.approx(milliseconds, abs=0.01)


def test_rows_share_the_weights_but_not_the_cache() -> None:
    config = full_size_model({token: number for number, token in enumerate(TOKENS)}, "1.7b")
    model = read_model(config, Path("config.json"))
    shapes = model_shapes(model)
    one, many = (layers_floor(model.talker, shapes, rows, 500, BF16) for rows in (1, 101))
    assert many.bytes - one.bytes == 100 * 500 * 112 * 1024
    assert many.operations == 101 * one.operations


def test_the_longer_of_memory_and_compute_time_counts() -> None:
    assert Floor(4.8e9, 0).milliseconds() == pytest.approx(1)
    assert Floor(0, 0.99e12).milliseconds() == pytest.approx(1)
