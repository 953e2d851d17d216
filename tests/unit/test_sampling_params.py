"""A request's sampling parameters: their ranges and defaults, and the columns that carry them to the kernels."""

from dataclasses import fields

import pytest
import torch

from engine.checkpoint.config import GenerationDefaults
from engine.errors import RequestError
from engine.protocol.request import SamplingParams
from engine.talker.requests import resolve
from engine.talker.sampling_params import (
    COLUMN_INDEX,
    FLOAT_COLUMNS,
    INT_COLUMNS,
    RANGES,
    CodebookParams,
    SamplingTensors,
)

CPU = torch.device("cpu")


def test_every_number_of_a_request_has_a_range():
    numbers = {each.name for each in fields(SamplingParams)} - {"greedy"}
    assert numbers <= RANGES.keys()
    assert RANGES.keys() - numbers == {"subtalker_repetition_penalty"}, "only codebook 0 has one"


@pytest.mark.parametrize("name", sorted(RANGES.keys() - {"subtalker_repetition_penalty"}))
def test_a_value_out_of_range_is_rejected_with_the_range(name):
    minimum, maximum = RANGES[name]
    for value in (minimum, maximum):
        resolve(SamplingParams(**{name: value}), GenerationDefaults())
    for value in (minimum - 1, maximum + 1, float("nan")):
        with pytest.raises(RequestError, match=f"{name} must be between .* and .*, got {value}") as raised:
            resolve(SamplingParams(**{name: value}), GenerationDefaults())
        assert raised.value.param == name


def test_what_a_request_leaves_out_is_the_checkpoints():
    defaults = GenerationDefaults(temperature=0.7, top_k=9, subtalker_top_p=0.5, max_new_tokens=30)
    resolved = resolve(SamplingParams(top_k=3, subtalker_temperature=0.4, seed=-5), defaults)
    assert resolved.codebook0 == CodebookParams(temperature=0.7, top_k=3, top_p=1.0, repetition_penalty=1.05)
    assert resolved.residual == CodebookParams(temperature=0.4, top_k=50, top_p=0.5, repetition_penalty=1.0)
    assert (resolved.max_new_tokens, resolved.seed) == (30, -5)


@pytest.mark.parametrize(
    ("params", "defaults", "greedy"),
    [
        (SamplingParams(), GenerationDefaults(), (False, False)),
        (SamplingParams(greedy=True), GenerationDefaults(), (True, True)),
        (SamplingParams(), GenerationDefaults(do_sample=False), (True, False)),
        (SamplingParams(temperature=0.5), GenerationDefaults(subtalker_dosample=False), (False, True)),
        (SamplingParams(temperature=1e-4), GenerationDefaults(), (True, False)),
    ],
)
def test_greedy_is_a_temperature_of_0(params, defaults, greedy):
    resolved = resolve(params, defaults)
    assert (resolved.codebook0.temperature == 0, resolved.residual.temperature == 0) == greedy


def test_a_column_holds_the_parameter_of_its_name():
    rows = [CodebookParams(0.5, 7, 0.25, 1.5), CodebookParams(), CodebookParams(top_k=2**31)]
    tensors = SamplingTensors.of(rows, CPU)
    assert tensors.int_params.dtype == torch.int64
    assert tensors.float_params.dtype == torch.float32
    for name in (*INT_COLUMNS, *FLOAT_COLUMNS):
        assert tensors.column(name).tolist() == [getattr(row, name) for row in rows]
    assert set(COLUMN_INDEX) == {each.name for each in fields(CodebookParams)}


def test_rows_are_gathered_and_assigned():
    slots = SamplingTensors.of([CodebookParams()] * 4, CPU)
    joining = [CodebookParams(0.5, 7, 0.25, 1.5), CodebookParams(top_k=3)]
    slots.assign(torch.tensor([3, 1]), SamplingTensors.of(joining, CPU))
    expected = SamplingTensors.of([joining[1], CodebookParams(), joining[0]], CPU)
    for found, wanted in zip(slots.gather(torch.tensor([1, 0, 3])), expected, strict=True):
        assert torch.equal(found, wanted)
