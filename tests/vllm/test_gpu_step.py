"""``benchmarks.gpu.step`` without a GPU: the steps it times, and the parts it measures."""

import pytest
import torch

from benchmarks.gpu import pieces as gpu_pieces
from benchmarks.gpu import step as gpu_step
from tests.support.talkers import DEVICE

ROWS = 3
FRAMES = 16


@pytest.fixture
def utterances(opened, vllm_talker):
    checkpoint = opened("1b7-custom_voice")
    return gpu_step.Utterances(vllm_talker(checkpoint), checkpoint)


def test_steps_of_all_rows_are_timed(utterances):
    times, positions = gpu_step.step_times(utterances, ROWS, FRAMES)
    assert len(times) >= 3
    assert positions > FRAMES / 2
    first, last = gpu_step.first_codes(utterances, ROWS)
    assert 0 < first <= last
    assert not utterances._talker.runnable(())


@pytest.mark.skipif(DEVICE.type == "cuda", reason="this is a dry run of the pieces")
def test_every_piece_runs(utterances, monkeypatch):
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(gpu_pieces, "_captured", lambda run, pool: type("Graph", (), {"replay": staticmethod(run)}))
    monkeypatch.setattr(gpu_pieces, "_replayed", lambda run: run() is not run)
    parts = gpu_step.parts_of(utterances, gpu_pieces.Pieces(utterances._talker), ROWS)
    layers = parts.pop("layers")
    assert layers is None, "nothing is captured on a CPU"
    assert all(parts.values())
    assert not utterances._talker.runnable(())
