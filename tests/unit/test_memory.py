"""How the GPU's memory is divided, and what is said where it does not suffice."""

import pytest

from engine.device.memory import GIB, CacheRequirements, cache_positions, memory_limit, usage_message
from engine.errors import SetupError

TAKEN = {"Code2Wav": 3 * GIB, "talker": 5 * GIB, "CUDA graphs": 2 * GIB}
POSITION = 112 * 1024
NEED = CacheRequirements(
    bytes_per_position=POSITION, block_size=16, min_positions=4128, max_positions=256 * 4128, context=4096
)


def test_nine_tenths_of_what_is_free_or_what_is_configured():
    assert memory_limit(100 * GIB, None) == 90 * GIB
    assert memory_limit(100 * GIB, 40) == 40 * GIB
    with pytest.raises(SetupError, match=r"gpu_memory_gib must be at most 100\.0, .* got 120"):
        memory_limit(100 * GIB, 120)


def test_the_cache_gets_what_is_left_in_whole_blocks():
    positions = cache_positions(40 * GIB, TAKEN, NEED)
    left = 40 * GIB - 10 * GIB - positions * POSITION
    assert positions % 16 == 0
    assert GIB <= left < GIB + 16 * POSITION, "and one GiB to spare"


def test_it_gets_no_more_than_its_slots_can_use():
    assert cache_positions(200 * GIB, TAKEN, NEED) == NEED.max_positions


@pytest.mark.parametrize("limit", [9, 11, 11.2])
def test_too_little_is_an_error_with_what_would_do(limit):
    with pytest.raises(SetupError) as refused:
        cache_positions(int(limit * GIB), TAKEN, NEED)
    assert refused.value.code == "out_of_memory"
    message = refused.value.message
    parts = "Code2Wav 3.0, talker 5.0, CUDA graphs 2.0, reserve 1.0"
    assert f"(limit {limit:.1f} GiB: {parts})" in message
    assert "needs 4,128 positions" in message
    assert "set gpu_memory_gib to at least 11.5" in message
    assert ("or talker.context to" in message) == (limit == 11.2)
    assert cache_positions(int(11.5 * GIB), TAKEN, NEED) >= NEED.min_positions


def test_a_context_that_is_named_as_fitting_fits():
    with pytest.raises(SetupError, match=r"talker\.context to (\d+)") as refused:
        cache_positions(int(11.2 * GIB), TAKEN, NEED)
    context = int(refused.value.message.split("talker.context to ")[1].split(",")[0])
    least = -(-(context + 1) // 16) * 16 + 16
    smaller = CacheRequirements(POSITION, 16, least, 10**6, context)
    assert cache_positions(int(11.2 * GIB), TAKEN, smaller) >= smaller.min_positions


def test_the_log_says_who_has_what():
    line = usage_message(40 * GIB, TAKEN, 1000, NEED)
    assert "limit 40.0 GiB: Code2Wav 3.0, talker 5.0, CUDA graphs 2.0, unallocated 30.0" in line
    assert "1,000 positions, talker.slots can use at most 1,056,768" in line
