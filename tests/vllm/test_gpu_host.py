"""``benchmarks.gpu.host`` without a GPU: every part of a step is measured, and the talker is idle afterwards."""

import pytest

from benchmarks.gpu import host
from tests.support.talkers import DEVICE

PARTS = {"schedule", "inputs", "start", "attention", "launch", "output", "send", "credit", "other", "join"}


@pytest.mark.parametrize("joins", [0, 2])
def test_every_part_of_a_step_is_measured(vllm_talker, opened, joins):
    checkpoint = opened("1b7-custom_voice")
    talker = vllm_talker(checkpoint)
    bench = host.Bench(talker, checkpoint, 300)
    with host.no_model_work(talker, DEVICE):
        figures = bench.measure(4, joins)
    bench.close()
    assert figures.keys() == PARTS | {"total"}
    assert all(figures[part] > 0 for part in PARTS - {"other"})
    assert talker.free_slots == 8
    assert not talker.runnable(())
