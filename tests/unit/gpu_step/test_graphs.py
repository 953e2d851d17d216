"""Batches are padded to one of a few captured sizes, and padding rows affect no slot."""

import numpy as np
import pytest
import torch

from engine.talker.gpu_step.graphs import PaddedGraphs, batch_sizes
from engine.talker.gpu_step.uploader import Uploader

PADDING_ROW = 6


@pytest.mark.parametrize(
    ("slots", "sizes"), [(1, [1]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8]), (40, [1, 2, 4, 8, 16, 24, 32, 40])]
)
def test_the_largest_batch_size_is_the_number_of_slots(slots, sizes):
    assert batch_sizes(slots) == sizes


def test_columns_are_padded_to_a_captured_size():
    seen = []

    def sample(block):
        rows, slots = block
        seen.append((rows.tolist(), slots.tolist()))
        return 10 * rows + slots

    run = PaddedGraphs(sample, batch_sizes(6), (0, PADDING_ROW), Uploader(torch.device("cpu")))
    assert run.max_rows == PADDING_ROW
    for slots, size in (([5, 0, 3, 1, 2], 6), ([4], 1), ([1, 3, 5], 4), ([2, 4], 2)):
        rows, padding = [8 - slot for slot in slots], size - len(slots)
        output = run([np.array(rows), np.array(slots)])
        assert output[: len(slots)].tolist() == [80 - 9 * slot for slot in slots]
        assert seen[-1] == (rows + padding * [0], slots + padding * [PADDING_ROW])


def test_reproducible_mode_uses_one_batch_size():
    assert batch_sizes(40, single=True) == [40]
