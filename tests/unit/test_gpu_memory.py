"""What is measured while the engine's parts are loaded, on a GPU that is a stand-in."""

import logging

import pytest
import torch

from engine.device.memory import GIB, CacheRequirements, GpuMemory, out_of_memory
from engine.errors import SetupError

TOTAL = 140 * GIB
DEVICE = torch.device("cuda")
NEED = CacheRequirements(
    bytes_per_position=112 * 1024, block_size=16, min_positions=4128, max_positions=1_000_000, context=4096
)


class Card:
    """Bytes in use; what torch had at most, and has, of them."""

    def __init__(self, monkeypatch):
        self.used, self.peak, self.allocated, self.share = GIB, 0, 0, None
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda *_: (TOTAL - self.used, TOTAL))
        monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
        monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda *_: None)
        monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda *_: self.peak)
        monkeypatch.setattr(torch.cuda, "memory_allocated", lambda *_: self.allocated)
        monkeypatch.setattr(torch.cuda.memory, "_lazy_init", lambda: None)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch._C, "_cuda_setMemoryFraction", self._hold, raising=False)

    def _hold(self, share, index):
        """What torch asks of CUDA when it has found nothing wrong with what it was given."""
        assert index == 0
        self.share = share


@pytest.fixture
def card(monkeypatch) -> Card:
    return Card(monkeypatch)


def loaded(card: Card, memory: GpuMemory) -> int:
    """Code2Wav takes 3 GiB, the talker 5 with a step of 2 at its height; then the bytes of its cache."""
    card.used += 3 * GIB
    memory.record("Code2Wav")
    memory.reset_peak()
    card.used += 5 * GIB
    card.allocated, card.peak = 4 * GIB, 6 * GIB
    return memory.cache_bytes(NEED)


def test_the_cache_gets_what_the_others_and_its_graphs_leave(card):
    memory = GpuMemory(DEVICE, 40)
    assert card.share == pytest.approx(40 / 140)
    left = 40 * GIB - loaded(card, memory)
    assert left == pytest.approx((3 + 5 + 2 + 1 + 1) * GIB, rel=0.001), "a graph's step, the graphs, and 1 to spare"


def test_without_a_limit_torch_is_held_to_none(card):
    memory = GpuMemory(DEVICE, None)
    assert memory.limit == int(0.9 * 139 * GIB)
    assert card.share is None


def test_the_log_says_what_everything_took_in_the_end(card, caplog):
    memory = GpuMemory(DEVICE, 40)
    cache = loaded(card, memory)
    card.used += cache + GIB
    with caplog.at_level(logging.INFO):
        memory.log_usage()
    [line] = [record.message for record in caplog.records]
    assert "limit 40.0 GiB: Code2Wav 3.0, talker 5.0, CUDA graphs 1.0, KV cache 28.0, unallocated 3.0" in line


def test_more_than_was_meant_is_a_warning(card, caplog):
    memory = GpuMemory(DEVICE, 40)
    cache = loaded(card, memory)
    card.used += cache + 6 * GIB
    memory.log_usage()
    assert "allocated 42.0 GiB of GPU memory, above its limit of 40.0 GiB" in caplog.text


def test_a_part_that_does_not_fit_is_said_with_what_to_lower(card):
    error = out_of_memory("Code2Wav", "code2wav.streams", torch.OutOfMemoryError("CUDA out of memory. Tried to"))
    assert isinstance(error, SetupError)
    assert error.code == "out_of_memory"
    assert error.message == (
        "the GPU has no room for Code2Wav: CUDA out of memory; 139.0 of its 140.0 GiB are free. "
        "Lower code2wav.streams, or stop other processes on the GPU"
    )
