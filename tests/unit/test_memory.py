"""The division of GPU memory, and the error if it does not suffice."""

import pytest

from engine.device.memory import GIB, CacheRequirements, cache_positions, memory_limit, usage_message
from engine.errors import SetupError

USED = {"Code2Wav": 3 * GIB, "talker": 5 * GIB, "CUDA graphs": 2 * GIB}
POSITION = 112 * 1024
NEED = CacheRequirements(
    bytes_per_position=POSITION, block_size=16, min_positions=4128, max_positions=256 * 4128, context=4096
)


def test_the_default_limit_is_nine_tenths_of_the_free_memory():
    assert memory_limit(100 * GIB, None) == 90 * GIB
    assert memory_limit(100 * GIB, 40) == 40 * GIB
    with pytest.raises(SetupError, match=r"gpu_memory_gib must be at most 100\.0, .* got 120"):
        memory_limit(100 * GIB, 120)


def test_the_cache_gets_the_rest_in_complete_blocks():
    positions = cache_positions(40 * GIB, USED, NEED)
    left = 40 * GIB - 10 * GIB - positions * POSITION
    assert positions % 16 == 0
    assert GIB <= left < GIB + 16 * POSITION, "a reserve of one GiB"


def test_the_cache_is_no_larger_than_its_slots_can_use():
    assert cache_positions(200 * GIB, USED, NEED) == NEED.max_positions


@pytest.mark.parametrize("limit", [9, 11, 11.2])
def test_too_little_memory_is_an_error_that_says_how_much_suffices(limit):
    with pytest.raises(SetupError) as refused:
        cache_positions(int(limit * GIB), USED, NEED)
    assert refused.value.code == "out_of_memory"
    message = refused.value.message
    parts = "Code2Wav 3.0, talker 5.0, CUDA graphs 2.0, reserve 1.0"
    assert f"(limit {limit:.1f} GiB: {parts})" in message
    assert "needs 4,128 positions" in message
    assert "set gpu_memory_gib to at least 11.5" in message
    assert ("or talker.context to" in message) == (limit == 11.2)
    assert cache_positions(int(11.5 * GIB), USED, NEED) >= NEED.min_positions


def test_a_suggested_context_fits():
    with pytest.raises(SetupError, match=r"talker\.context to (\d+)") as refused:
        cache_positions(int(11.2 * GIB), USED, NEED)
    context = int(refused.value.message.split("talker.context to ")[1].split(",")[0])
    least = -(-(context + 1) // 16) * 16 + 16
    smaller = CacheRequirements(POSITION, 16, least, 10**6, context)
    assert cache_positions(int(11.2 * GIB), USED, smaller) >= smaller.min_positions


def test_the_log_says_what_each_part_uses():
    line = usage_message(40 * GIB, USED, 1000, NEED)
    assert "limit 40.0 GiB: Code2Wav 3.0, talker 5.0, CUDA graphs 2.0, unallocated 30.0" in line
    assert "1,000 positions, talker.slots can use at most 1,056,768" in line
