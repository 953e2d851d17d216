"""Cache blocks: allocated once, shared by prompts with the same beginning, and reused in the right order."""

from engine.talker.vllm.block_pool import BlockPool


def test_every_block_but_0_is_allocated_once():
    pool = BlockPool(5)
    first, second = pool.allocate(2), pool.allocate(3)
    assert sorted(first + second) == [1, 2, 3, 4, 5]
    assert pool.free == 0


def test_a_known_prefix_is_found_while_it_is_in_use_and_after_its_release():
    pool = BlockPool(5)
    blocks = pool.allocate(3)
    for block, key in zip(blocks, (b"a", b"ab", b"abc"), strict=True):
        pool.store(block, key)
    shared = pool.find([b"a", b"ab", b"x"])
    assert shared == blocks[:2]
    pool.release(blocks)
    assert pool.free == 3
    pool.release(shared)
    assert pool.free == 5
    assert pool.find([b"a", b"ab", b"abc", b"abcd"]) == blocks


def test_blocks_without_a_key_are_reused_before_the_end_of_the_oldest_prefix():
    pool = BlockPool(4)
    old, new = pool.allocate(2), pool.allocate(1)
    for block, key in zip([*old, *new], (b"a", b"ab", b"n"), strict=True):
        pool.store(block, key)
    pool.release(old)
    pool.release(new)
    plain = pool.allocate(1)
    pool.release(plain)
    assert pool.allocate(1) == plain
    assert pool.allocate(1) == [old[1]]
    assert pool.find([b"a", b"ab"]) == [old[0]]
    assert pool.find([b"n"]) == new


def test_nothing_is_found_after_forgetting():
    pool = BlockPool(2)
    blocks = pool.allocate(1)
    pool.store(blocks[0], b"a")
    pool.forget()
    assert pool.find([b"a"]) == []
    pool.release(blocks)
    assert sorted(pool.allocate(2)) == [1, 2]


def test_two_blocks_with_the_same_key_are_both_usable():
    pool = BlockPool(2)
    one, two = pool.allocate(1), pool.allocate(1)
    pool.store(one[0], b"a")
    pool.store(two[0], b"a")
    pool.release(two)
    pool.release(one)
    assert pool.find([b"a"]) == one
