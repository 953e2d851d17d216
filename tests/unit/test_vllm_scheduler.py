"""The rows of each step, and the cache blocks of utterances when there are too few for all."""

import random

import numpy as np
import pytest

from engine.talker.vllm.scheduler import CacheSize, Scheduler

BLOCK, CONTEXT = 4, 200
CONTEXT_BLOCKS = 51


def scheduler_of(blocks=1000, slots=4, max_rows=20):
    return Scheduler(slots, max_rows, CacheSize(blocks + 1, BLOCK, CONTEXT))


def scheduled(scheduler, paused=()):
    """stream -> (first position, number of rows, whether a code is sampled) of the next batch."""
    batch = scheduler.schedule(paused)
    if batch is None:
        return {}
    streams = scheduler.streams(batch.slots)
    return {
        stream: (int(start), int(count), bool(samples))
        for stream, start, count, samples in zip(streams, batch.starts, batch.counts, batch.samples, strict=True)
    }


def test_prompts_are_computed_in_pieces_beside_the_rows_that_decode():
    scheduler = scheduler_of(max_rows=12)
    scheduler.admit(1, 5, 9, [])
    scheduler.admit(2, 17, 9, [])
    assert scheduled(scheduler) == {1: (0, 5, True), 2: (0, 7, False)}
    assert scheduled(scheduler) == {1: (5, 1, True), 2: (7, 10, True)}
    assert scheduled(scheduler) == {1: (6, 1, True), 2: (17, 1, True)}


def test_utterances_that_decode_come_first_in_a_batch():
    scheduler = scheduler_of()
    for stream in (1, 2):
        scheduler.admit(stream, 3, 9, [])
        batch = scheduler.schedule(())
    assert batch.prefill.tolist() == [False, True]
    assert batch.bounds.tolist() == [0, 1, 4]


def test_the_last_code_is_marked_and_nothing_follows_it():
    scheduler = scheduler_of()
    scheduler.admit(1, 3, 3, [])
    assert [scheduler.schedule(()).last.tolist() for _ in range(3)] == [[False], [False], [True]]
    assert scheduler.schedule(()) is None
    assert not scheduler.runnable(())


def test_paused_streams_wait_but_their_prompts_do_not():
    scheduler = scheduler_of()
    scheduler.admit(1, 3, 9, [])
    assert scheduled(scheduler, paused={1}) == {1: (0, 3, True)}
    assert scheduled(scheduler, paused={1, 7}) == {}
    assert not scheduler.runnable({1})
    assert scheduler.runnable({7})
    assert scheduled(scheduler) == {1: (3, 1, True)}


def test_an_utterance_waits_for_the_text_of_its_next_frame():
    scheduler = scheduler_of()
    slot = scheduler.admit(1, 3, 9, [])
    scheduler.set_text(slot, 1)
    assert [scheduled(scheduler).get(1) for _ in range(3)] == [(0, 3, True), (3, 1, True), None]
    scheduler.set_text(slot, None)
    assert scheduled(scheduler) == {1: (4, 1, True)}


def test_a_released_slot_is_recognized_even_if_another_utterance_has_it():
    scheduler = scheduler_of(slots=1)
    scheduler.admit(1, 3, 9, [])
    batch = scheduler.schedule(())
    assert scheduler.live(batch.slots, batch.generations).all()
    scheduler.release(1)
    assert scheduler.free_slots == 1
    scheduler.admit(2, 3, 9, [])
    assert not scheduler.live(batch.slots, batch.generations).any()


def test_a_known_prefix_is_not_computed_again():
    scheduler = scheduler_of()
    keys = [b"a", b"ab"]
    scheduler.admit(1, 10, 9, keys)
    batch = scheduler.schedule(())
    scheduler.admit(2, 9, 9, keys)
    other = scheduler.admit(3, 9, 9, [b"a", b"ax"])
    assert scheduled(scheduler) == {1: (10, 1, True), 2: (8, 1, True), 3: (4, 5, True)}
    table = scheduler.block_table
    assert table[other, 0] == table[batch.slots[0], 0] != 0
    assert table[other, 1] != table[batch.slots[0], 1]


def test_a_prefix_is_not_used_before_it_is_computed():
    scheduler = scheduler_of(max_rows=6)
    scheduler.admit(1, 10, 9, [b"a", b"ab"])
    scheduler.admit(2, 10, 9, [b"a", b"ab"])
    assert scheduled(scheduler) == {1: (0, 6, False)}
    assert scheduled(scheduler) == {1: (6, 4, True), 2: (4, 2, False)}


def test_after_a_failed_step_no_prefix_is_known():
    scheduler = scheduler_of()
    scheduler.admit(1, 10, 9, [b"a", b"ab"])
    scheduler.schedule(())
    scheduler.forget_prefixes()
    scheduler.admit(2, 10, 9, [b"a", b"ab"])
    assert scheduled(scheduler)[2] == (0, 10, True)


def test_only_changed_rows_of_the_block_table_are_reported():
    scheduler = scheduler_of()
    slot = scheduler.admit(1, 3, 150, [])
    assert scheduler.schedule(()).new_blocks.tolist() == [slot]
    changes = [scheduler.schedule(()).new_blocks.tolist() for _ in range(100)]
    assert 1 <= sum(map(len, changes)) <= 4


def test_while_the_oldest_utterance_waits_others_run_one_after_another():
    """In a cache for one context, so that there is nothing but what the oldest one may need."""
    scheduler = scheduler_of(blocks=CONTEXT_BLOCKS)
    scheduler.set_text(scheduler.admit(1, 20, 100, []), 1)
    scheduler.schedule(())
    for stream in (2, 3):
        scheduler.admit(stream, 20, 60, [])
    order = []
    while scheduler.runnable(()):
        batch = scheduler.schedule(())
        assert len(batch.slots) == 1
        [stream] = scheduler.streams(batch.slots)
        order.append(stream)
        if batch.last[0]:
            scheduler.release(stream)
    assert sorted(order) == order
    assert set(order) == {1, 2, 3}


def test_a_prompt_with_room_for_itself_does_not_borrow():
    scheduler = scheduler_of(blocks=CONTEXT_BLOCKS + 10)
    scheduler.admit(1, 20, 100, [])
    scheduler.schedule(())
    scheduler.admit(2, 20, 150, [])
    assert scheduled(scheduler, paused={1}) == {2: (0, 20, True)}
    assert scheduled(scheduler) == {1: (20, 1, True), 2: (20, 1, True)}


def test_the_oldest_utterance_leaves_a_borrower_its_blocks():
    scheduler = scheduler_of(blocks=CONTEXT_BLOCKS)
    scheduler.admit(1, 20, 181, [])
    scheduler.schedule(())
    scheduler.admit(2, 4, 120, [])
    assert scheduled(scheduler, paused={1}) == {2: (0, 4, True)}
    waited = False
    for _ in range(119):
        rows = scheduled(scheduler)
        assert 2 in rows
        waited |= 1 not in rows
    assert waited
    scheduler.release(2)
    while scheduler.runnable(()):
        batch = scheduler.schedule(())
    assert batch.last.all()


@pytest.mark.parametrize("stuck", [False, True], ids=["", "the oldest never continues"])
@pytest.mark.parametrize("seed", range(6))
def test_with_few_blocks_every_utterance_ends_and_no_two_share_a_block(seed, stuck):
    """Utterances of any length join, pause and are cancelled at random, in a cache for one and a half contexts."""
    rng = random.Random(seed)
    scheduler, admitted, codes = scheduler_of(blocks=CONTEXT_BLOCKS * 3 // 2, slots=6, max_rows=30), 0, {}
    chains = [[bytes((chain, block)) for block in range(15)] for chain in range(3)]
    left = {}
    for _ in range(20_000):
        if admitted < 40 and scheduler.free_slots and rng.random() < 0.2:
            rows = rng.randint(1, 60)
            left[admitted] = rng.randint(1, CONTEXT + 1 - rows)
            keys = rng.choice(chains)[: (rows - 1) // BLOCK]
            scheduler.admit(admitted, rows, left[admitted], keys if rng.random() < 0.5 else [])
            admitted += 1
        if left and rng.random() < 0.01:
            stream = rng.choice(sorted(left))
            scheduler.release(stream)
            del left[stream]
        paused = {stream for stream in left if rng.random() < 0.2}
        if stuck and admitted < 40:
            paused |= {min(left, default=0)}
        runnable = scheduler.runnable(paused)
        batch = scheduler.schedule(paused)
        assert runnable == (batch is not None)
        if batch is None:
            assert paused or not left
            continue
        assert batch.counts.sum() <= 30
        ends = -(-(batch.starts + batch.counts) // BLOCK)
        used = [scheduler.block_table[slot, :end] for slot, end in zip(batch.slots, ends, strict=True)]
        written = [blocks[start // BLOCK :] for blocks, start in zip(used, batch.starts, strict=True)]
        assert len(np.unique(np.concatenate(written))) == sum(map(len, written))
        assert all(len(np.unique(blocks)) == len(blocks) for blocks in used)
        assert np.concatenate(used).min() > 0
        for row in np.flatnonzero(batch.samples):
            [stream] = scheduler.streams(batch.slots[row : row + 1])
            codes[stream] = codes.get(stream, 0) + 1
            if batch.last[row]:
                assert codes[stream] == left.pop(stream)
                scheduler.release(stream)
        if admitted == 40 and not left:
            break
    assert admitted == 40
    assert not left
    assert scheduler.free_slots == 6
