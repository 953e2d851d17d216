"""The talker's cache is as large as the GPU's division says; what it says stands in for a GPU's."""

import pytest
import torch

from engine.config import TalkerConfig
from engine.device.memory import cache_positions
from engine.errors import SetupError
from engine.talker.vllm.talker import load_vllm_talker
from tests.support.talkers import DEVICE, prepare, speak, various_requests

pytestmark = pytest.mark.skipif(DEVICE.type == "cuda", reason="a real one says so there")
CONFIG = TalkerConfig(slots=4, context=256, prefill_chunk=64)


class Memory:
    """So many bytes, of which some are taken."""

    def __init__(self, limit: int, taken: int) -> None:
        self.limit, self.taken = limit, taken
        self.peak_watched = False

    def reset_peak(self) -> None:
        self.peak_watched = True

    def cache_bytes(self, need) -> int:
        assert self.peak_watched
        self.need, self.positions = need, cache_positions(self.limit, {"all": self.taken}, need)
        return self.positions * need.bytes_per_position


def test_the_cache_takes_what_is_left(opened):
    checkpoint = opened("0b6-custom_voice")
    memory = Memory(2**30 + 2**20, 0)
    talker = load_vllm_talker(checkpoint, CONFIG, DEVICE, torch.float32, memory)
    try:
        assert memory.need.min_positions < memory.positions < memory.need.max_positions
        blocks = talker._core._core.vllm_config.cache_config.num_gpu_blocks
        assert blocks * memory.need.block_size == memory.positions
        utterances = [prepare(request, checkpoint) for request in various_requests(checkpoint, 6)]
        assert all(each.finish for each in speak(talker, utterances))
    finally:
        talker.close()


def test_too_little_is_said_with_what_would_do(opened):
    memory = Memory(2**30, 2**20)
    with pytest.raises(SetupError, match=r"needs .* positions, but GPU memory suffices for .*: set gpu_memory_gib"):
        load_vllm_talker(opened("0b6-custom_voice"), CONFIG, DEVICE, torch.float32, memory)
