import os
from pathlib import Path

import pytest

from engine.transfer.memory import Segment, allocate, segment_size

CAPACITY = 1024


@pytest.fixture(params=["memfd", "file"])
def descriptor(request, monkeypatch):
    if request.param == "file":
        monkeypatch.delattr(os, "memfd_create", raising=False)
    descriptor = allocate(segment_size(CAPACITY))
    yield descriptor
    os.close(descriptor)


def test_memory_has_no_name_and_is_not_inherited(descriptor):
    assert os.fstat(descriptor).st_nlink == 0
    assert not os.get_inheritable(descriptor)


def test_two_mappings_of_one_descriptor_are_the_same_memory(descriptor):
    one, other = Segment(descriptor, CAPACITY), Segment(descriptor, CAPACITY)
    one.data(0)[:5] = b"codes"
    one.positions(1)[0] = 2**64 - 1
    assert bytes(other.data(0)[:5]) == b"codes"
    assert other.positions(1)[0] == 2**64 - 1
    one.close()
    other.close()


def test_parts_do_not_overlap(descriptor):
    segment = Segment(descriptor, CAPACITY)
    parts = [part(side) for side in (0, 1) for part in (segment.signals, segment.positions, segment.data)]
    for number, part in enumerate(parts, start=1):
        for index in range(len(part)):
            part[index] = number
    assert all(set(part) == {number} for number, part in enumerate(parts, start=1))
    assert sum(part.nbytes for part in parts) == segment_size(CAPACITY)
    segment.close()


def test_a_mapping_outlives_the_descriptor_and_ends_with_close():
    descriptor = allocate(segment_size(CAPACITY))
    segment = Segment(descriptor, CAPACITY)
    os.close(descriptor)
    data = segment.data(0)
    data[0] = 7
    assert data[0] == 7
    segment.close()
    with pytest.raises(ValueError, match="released"):
        data[0]


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="this system has no /dev/shm")
def test_nothing_appears_in_dev_shm():
    before = set(os.listdir("/dev/shm"))
    descriptor = allocate(segment_size(CAPACITY))
    segment = Segment(descriptor, CAPACITY)
    assert set(os.listdir("/dev/shm")) <= before
    segment.close()
    os.close(descriptor)
