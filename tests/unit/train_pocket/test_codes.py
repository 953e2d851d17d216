"""Codes on disk are read back unchanged."""

from itertools import count

import numpy as np
import pytest

from scripts.train_pocket import codes

RANDOM = np.random.default_rng(5)


def random_codes(frames):
    return RANDOM.integers(0, 512, (frames, codes.CODEBOOKS), dtype=np.int16)


def test_bit_b_of_the_high_row_is_bit_8_of_code_b():
    frame = np.zeros((1, 16), np.int16)
    frame[0, 3], frame[0, 9] = 256, 511
    low, high = codes.pack(frame)
    assert low[0].tolist() == [0] * 9 + [255] + [0] * 6
    assert int.from_bytes(high[0].tobytes(), "little") == 1 << 3 | 1 << 9


def test_codes_are_read_in_the_order_written(tmp_path):
    written = {7: random_codes(3), 2: random_codes(0), 900_000_000_000: random_codes(11)}
    codes.write(tmp_path, written.items())
    read = codes.read(tmp_path)
    assert read.ids.tolist() == list(written)
    assert len(read) == 3
    assert read.codes.dtype == np.int16
    for index, expected in enumerate(written.values()):
        np.testing.assert_array_equal(read[index], expected)


def test_files_respect_the_size_limit(tmp_path):
    files = codes.write(tmp_path, ((i, random_codes(40)) for i in range(50)), file_bytes=8000)
    assert [file.name for file in files] == [
        "codes-000.npz",
        "codes-001.npz",
        "codes-002.npz",
        "codes-003.npz",
        "codes-004.npz",
    ]
    assert max(file.stat().st_size for file in files) < 10_000
    assert codes.read(tmp_path).ids.tolist() == list(range(50))


def test_several_writers_share_a_folder(tmp_path):
    for rank in range(2):
        codes.write(
            tmp_path, ((10 * rank + i, random_codes(2)) for i in range(3)), numbers=count(rank, 2), file_bytes=60
        )
    assert codes.read(tmp_path).ids.tolist() == [0, 10, 1, 11, 2, 12]


@pytest.mark.parametrize(
    "invalid", [np.full((2, 16), 512), np.full((2, 16), -1), np.zeros((2, 15), int), np.zeros(16, int)]
)
def test_refuses_invalid_codes(invalid):
    with pytest.raises(ValueError, match="codes must be"):
        codes.pack(invalid)


def test_a_folder_without_codes_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no codes-\*\.npz"):
        codes.read(tmp_path)
