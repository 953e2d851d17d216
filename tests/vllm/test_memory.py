"""The size of the talker's cache follows the division of the GPU's memory, which is simulated."""

import pytest
import torch

from engine.config import TalkerConfig
from engine.device.memory import cache_positions
from engine.errors import SetupError
from engine.talker.vllm.talker import load_vllm_talker
from tests.support.talkers import DEVICE, prepare, speak, various_requests

pytestmark = pytest.mark.skipif(DEVICE.type == "cuda", reason="a real GPU reports its own memory")
CONFIG = TalkerConfig(slots=4, context=256, prefill_chunk=64)


class SimulatedMemory:
    """Memory with a limit in bytes, of which some are used."""

    def __init__(self, limit: int, used: int) -> None:
        self.limit, self.used = limit, used
        self.peak_watched = False

    def reset_peak(self) -> None:
        self.peak_watched = True

    def cache_bytes(self, need) -> int:
        assert self.peak_watched
        self.need, self.positions = need, cache_positions(self.limit, {"all": self.used}, need)
        return self.positions * need.bytes_per_position


def test_the_cache_takes_the_remaining_memory(opened):
    checkpoint = opened("0b6-custom_voice")
    memory = SimulatedMemory(2**30 + 2**20, 0)
    talker = load_vllm_talker(checkpoint, CONFIG, DEVICE, torch.float32, memory)
    try:
        assert memory.need.min_positions < memory.positions < memory.need.max_positions
        blocks = talker._core.model_runner.kv_cache_config.num_blocks
        assert blocks * memory.need.block_size == memory.positions
        utterances = [prepare(request, checkpoint) for request in various_requests(checkpoint, 6)]
        assert all(each.finish for each in speak(talker, utterances))
    finally:
        talker.close()


def test_too_little_memory_is_an_error_that_says_how_much_suffices(opened):
    memory = SimulatedMemory(2**30, 2**20)
    with pytest.raises(SetupError, match=r"needs .* positions, but GPU memory suffices for .*: set gpu_memory_gib"):
        load_vllm_talker(opened("0b6-custom_voice"), CONFIG, DEVICE, torch.float32, memory)
