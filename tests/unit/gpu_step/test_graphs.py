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


def test_rows_get_their_own_codes_and_padding_uses_the_padding_row():
    seen = []

    def sample_frame(hidden, rows):
        seen.append(rows.tolist())
        return torch.stack((rows, hidden.sum(1).long()), 1)

    sizes = batch_sizes(6)
    run = GraphedFrameSampler(
        sample_frame, sizes, padding_row=PADDING_ROW, hidden=2, device=torch.device("cpu"), dtype=torch.float32
    )
    for slots in ([5, 0, 3, 1, 2], [4], [1, 3, 5]):
        hidden = torch.tensor([[slot, 10.0] for slot in slots])
        codes = run(hidden, torch.tensor(slots))
        assert codes.tolist() == [[slot, slot + 10] for slot in slots]
        assert seen[-1][: len(slots)] == slots
        assert set(seen[-1][len(slots) :]) <= {PADDING_ROW}
        assert len(seen[-1]) in sizes


def test_reproducible_mode_uses_one_batch_size():
    assert batch_sizes(40, single=True) == [40]
