"""Batches are padded to one of a few captured sizes, and padding rows affect no slot."""

import pytest
import torch

from engine.talker.gpu_step.graphs import GraphedFrameSampler, batch_sizes

PADDING_ROW = 6


@pytest.mark.parametrize(
    ("slots", "sizes"), [(1, [1]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8]), (40, [1, 2, 4, 8, 16, 24, 32, 40])]
)
def test_the_largest_batch_size_is_the_number_of_slots(slots, sizes):
    assert batch_sizes(slots) == sizes


def test_rows_get_their_own_codes_in_a_batch_of_a_captured_size():
    seen = []

    def sample_frame(hidden, rows):
        seen.append(rows.tolist())
        return torch.stack((rows, hidden.sum(1).long()), 1)

    sizes = batch_sizes(6)
    run = GraphedFrameSampler(
        sample_frame, sizes, padding_row=PADDING_ROW, hidden=2, device=torch.device("cpu"), dtype=torch.float32
    )
    hidden = torch.tensor([[row, 10.0] for row in range(9)])
    for slots in ([5, 0, 3, 1, 2], [4], [1, 3, 5]):
        size = run.padded_size(len(slots))
        assert size in sizes
        padded = slots + [PADDING_ROW] * (size - len(slots))
        rows = [8 - slot for slot in slots] + [0] * (size - len(slots))
        codes = run(hidden, torch.tensor(rows), torch.tensor(padded))
        assert codes[: len(slots)].tolist() == [[slot, 18 - slot] for slot in slots]
        assert seen[-1] == padded


def test_reproducible_mode_uses_one_batch_size():
    assert batch_sizes(40, single=True) == [40]
