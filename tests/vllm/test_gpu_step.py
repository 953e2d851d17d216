"""``benchmarks.gpu.step`` without a GPU: the steps it times, and the parts it measures."""

import pytest
import torch

from benchmarks.gpu import pieces as gpu_pieces
from benchmarks.gpu import step as gpu_step
from tests.talkers import DEVICE

ROWS = 3
FRAMES = 16


@pytest.fixture
def crowd(opened, vllm_talker):
    checkpoint = opened("1b7-custom_voice")
    return gpu_step.Crowd(vllm_talker(checkpoint), checkpoint)


def test_steps_of_all_rows_are_timed(crowd):
    times, positions = gpu_step.step_times(crowd, ROWS, FRAMES)
    assert len(times) >= 3
    assert positions > FRAMES / 2
    first, last = gpu_step.first_codes(crowd, ROWS)
    assert 0 < first <= last
    assert not crowd._talker.runnable(())


@pytest.mark.skipif(DEVICE.type == "cuda", reason="this is a dry run of the pieces")
def test_every_piece_runs(crowd, monkeypatch):
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(gpu_pieces, "_captured", lambda run, pool: type("Graph", (), {"replay": staticmethod(run)}))
    monkeypatch.setattr(gpu_pieces, "_replayed", lambda run: run() is not run)
    parts = gpu_step.parts_of(crowd, gpu_pieces.Pieces(crowd._talker), ROWS)
    layers = parts.pop("layers")
    assert layers is None, "nothing is captured on a CPU"
    assert all(parts.values())
    assert not crowd._talker.runnable(())
