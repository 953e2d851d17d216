from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.transfer.records import LinkCorrupt
from engine.transfer.ring import ALIGNMENT, Entry, RingReader, RingWriter, largest_payload

TAIL, HEAD = 0, 8


class Ring:
    """A ring in ordinary memory: both ends, and the positions and bytes between them."""

    def __init__(self, capacity):
        self.positions = memoryview(bytearray(128)).cast("Q")
        self.data = memoryview(bytearray(capacity))
        self.writer = RingWriter(self.positions, self.data)
        self.reader = RingReader(self.positions, self.data)

    def write(self, entry):
        if not self.writer.put(entry):
            return False
        self.writer.publish()
        return True


def entry(payload=b"", number=0):
    return Entry(number, number + 1, 2, 1, number + 3, number + 0.5, payload)


def space_for(payload_length):
    return -(-(ALIGNMENT + payload_length) // ALIGNMENT) * ALIGNMENT


@given(
    blocks=st.integers(1, 12),
    steps=st.lists(st.one_of(st.integers(0, 12 * ALIGNMENT), st.none()), max_size=200),
)
def test_behaves_like_a_bounded_queue_around_every_wrap(blocks, steps):
    """A number writes a payload of that length, None reads everything."""
    ring = Ring(blocks * ALIGNMENT)
    queue, free = deque(), len(ring.data)
    for number, length in enumerate(steps):
        if length is None:
            assert ring.reader.ready == bool(queue)
            assert ring.reader.read() == list(queue)
            queue.clear()
            free = len(ring.data)
        else:
            written = entry(bytes((number + byte) % 256 for byte in range(length)), number)
            assert ring.write(written) == (space_for(length) <= free)
            if space_for(length) <= free:
                queue.append(written)
                free -= space_for(length)
    assert ring.reader.read() == list(queue)


def test_every_field_keeps_its_largest_value():
    ring = Ring(256)
    largest = Entry(2**64 - 1, 2**32 - 1, 2**16 - 1, 2**16 - 1, 2**32 - 1, 1.7e308, bytes(range(100)))
    assert ring.write(largest)
    assert ring.reader.read() == [largest]


def test_the_largest_payload_fills_a_ring_and_one_more_byte_does_not_fit():
    ring = Ring(256)
    assert not ring.write(entry(bytes(largest_payload(256) + 1)))
    assert ring.write(entry(bytes(largest_payload(256))))
    assert not ring.write(entry())


def test_read_payloads_do_not_change_when_their_space_is_reused():
    ring = Ring(64)
    ring.write(entry(b"a" * 32))
    (first,) = ring.reader.read()
    ring.write(entry(b"b" * 32))
    assert first.payload == b"a" * 32


@pytest.mark.parametrize(
    "damage",
    [
        lambda ring: ring.positions.__setitem__(TAIL, 2**63),
        lambda ring: ring.positions.__setitem__(TAIL, len(ring.data) + ALIGNMENT),
        lambda ring: ring.positions.__setitem__(TAIL, ALIGNMENT),
        lambda ring: ring.positions.__setitem__(TAIL, 7),
        lambda ring: ring.data.__setitem__(slice(20, 24), b"\xff\xff\xff\xff"),
    ],
    ids=["tail far ahead", "tail past the ring", "tail inside a record", "tail inside a header", "length"],
)
def test_the_reader_refuses_corrupt_positions_and_lengths(damage):
    ring = Ring(256)
    ring.write(entry(b"x" * 40))
    damage(ring)
    with pytest.raises(LinkCorrupt):
        ring.reader.read()


@pytest.mark.parametrize("head", [ALIGNMENT, 2**63])
def test_the_writer_refuses_a_read_position_beyond_the_written_data(head):
    ring = Ring(256)
    ring.positions[HEAD] = head
    with pytest.raises(LinkCorrupt):
        ring.write(entry())
