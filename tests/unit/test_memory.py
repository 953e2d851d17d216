"""The division of GPU memory, and the error if it does not suffice."""

import pytest

from engine.device.memory import GIB, CacheNeed, cache_positions, limit_of, told
from engine.errors import SetupError

USED = {"Code2Wav": 3 * GIB, "talker": 5 * GIB, "its graphs": 2 * GIB}
POSITION = 112 * 1024
NEED = CacheNeed(position=POSITION, block=16, least=4128, most=256 * 4128, context=4096)


def test_the_default_limit_is_nine_tenths_of_the_free_memory():
    assert limit_of(100 * GIB, None) == 90 * GIB
    assert limit_of(100 * GIB, 40) == 40 * GIB
    with pytest.raises(SetupError, match=r"gpu_memory_gib is 120, and 100\.0 GiB .* are free"):
        limit_of(100 * GIB, 120)


def test_the_cache_gets_the_rest_in_complete_blocks():
    positions = cache_positions(40 * GIB, USED, NEED)
    left = 40 * GIB - 10 * GIB - positions * POSITION
    assert positions % 16 == 0
    assert GIB <= left < GIB + 16 * POSITION, "a reserve of one GiB"


def test_the_cache_is_no_larger_than_its_slots_can_use():
    assert cache_positions(200 * GIB, USED, NEED) == NEED.most


@pytest.mark.parametrize("limit", [9, 11, 11.2])
def test_too_little_memory_is_an_error_that_says_how_much_suffices(limit):
    with pytest.raises(SetupError) as refused:
        cache_positions(int(limit * GIB), USED, NEED)
    assert refused.value.code == "out_of_memory"
    message = refused.value.message
    taken = "Code2Wav 3.0, talker 5.0, its graphs 2.0 and 1 to spare"
    assert f"of the {limit:.1f} GiB that may be taken, {taken}" in message
    assert "4,128 are needed: 11.5 GiB would do" in message
    assert ("or a talker.context of" in message) == (limit == 11.2)
    assert cache_positions(int(11.5 * GIB), USED, NEED) >= NEED.least


def test_a_suggested_context_fits():
    with pytest.raises(SetupError, match=r"a talker\.context of (\d+)") as refused:
        cache_positions(int(11.2 * GIB), USED, NEED)
    context = int(refused.value.message.split("talker.context of ")[1].split(",")[0])
    least = -(-(context + 1) // 16) * 16 + 16
    smaller = CacheNeed(position=POSITION, block=16, least=least, most=10**6, context=context)
    assert cache_positions(int(11.2 * GIB), USED, smaller) >= smaller.least


def test_the_log_says_what_each_part_uses():
    line = told(40 * GIB, USED, 1000, NEED)
    assert "40.0 GiB may be taken: Code2Wav 3.0, talker 5.0, its graphs 2.0, 30.0 left" in line
    assert "1,000 positions, its slots could use 1,056,768" in line
