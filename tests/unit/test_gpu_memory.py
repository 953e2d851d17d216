"""Memory measurement while the parts of the engine are loaded, on a simulated GPU."""

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


class FakeGpu:
    """Bytes in use, and the bytes that torch has allocated now and at its peak."""

    def __init__(self, monkeypatch):
        self.used, self.peak, self.allocated, self.share = GIB, 0, 0, None
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda *_: (TOTAL - self.used, TOTAL))
        monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
        monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda *_: None)
        monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda *_: self.peak)
        monkeypatch.setattr(torch.cuda, "memory_allocated", lambda *_: self.allocated)
        monkeypatch.setattr(torch.cuda.memory, "_lazy_init", lambda: None)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch._C, "_cuda_setMemoryFraction", self._set_fraction, raising=False)

    def _set_fraction(self, share, index):
        """The call that torch makes to CUDA after it has validated the fraction."""
        assert index == 0
        self.share = share


@pytest.fixture
def card(monkeypatch) -> FakeGpu:
    return FakeGpu(monkeypatch)


def load_parts(card: FakeGpu, memory: GpuMemory) -> int:
    """Load Code2Wav with 3 GiB and the talker with 5 GiB and a 2 GiB step peak; return the bytes left for the cache."""
    card.used += 3 * GIB
    memory.record("Code2Wav")
    memory.reset_peak()
    card.used += 5 * GIB
    card.allocated, card.peak = 4 * GIB, 6 * GIB
    return memory.cache_bytes(NEED)


def test_the_cache_gets_the_rest_after_the_parts_and_graphs(card):
    memory = GpuMemory(DEVICE, 40)
    assert card.share == pytest.approx(40 / 140)
    left = 40 * GIB - load_parts(card, memory)
    assert left == pytest.approx((3 + 5 + 2 + 1 + 1) * GIB, rel=0.001), (
        "the step peak, the graphs, and a reserve of 1 GiB"
    )


def test_without_a_limit_torch_is_not_limited(card):
    memory = GpuMemory(DEVICE, None)
    assert memory.limit == int(0.9 * 139 * GIB)
    assert card.share is None


def test_the_log_lists_the_memory_of_each_part(card, caplog):
    memory = GpuMemory(DEVICE, 40)
    cache = load_parts(card, memory)
    card.used += cache + GIB
    with caplog.at_level(logging.INFO):
        memory.log_usage()
    [line] = [record.message for record in caplog.records]
    assert "limit 40.0 GiB: Code2Wav 3.0, talker 5.0, CUDA graphs 1.0, KV cache 28.0, unallocated 3.0" in line


def test_exceeding_the_limit_is_a_warning(card, caplog):
    memory = GpuMemory(DEVICE, 40)
    cache = load_parts(card, memory)
    card.used += cache + 6 * GIB
    memory.log_usage()
    assert "allocated 42.0 GiB of GPU memory, above its limit of 40.0 GiB" in caplog.text


def test_out_of_memory_names_the_part_and_the_setting_to_lower(card):
    error = out_of_memory("Code2Wav", "code2wav.streams", torch.OutOfMemoryError("CUDA out of memory. Tried to"))
    assert isinstance(error, SetupError)
    assert error.code == "out_of_memory"
    assert error.message == (
        "the GPU has no room for Code2Wav: CUDA out of memory; 139.0 of its 140.0 GiB are free. "
        "Lower code2wav.streams, or stop other processes on the GPU"
    )
