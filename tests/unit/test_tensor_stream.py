"""Tensors that are read while others are converted: in any order, with little memory, and verified."""

import hashlib
import threading

import pytest
import torch
from safetensors.torch import save_file

from engine.checkpoint import tensor_stream
from engine.checkpoint.checksums import Checksums
from engine.checkpoint.tensors import TensorFile
from engine.errors import CheckpointError

NAMES = [f"part.{letter}" for letter in "abcdefgh"]
FILE = "model.safetensors"


@pytest.fixture
def stored(tmp_path):
    tensors = {name: torch.full((1000, 10), float(number)) for number, name in enumerate(NAMES)}
    save_file(tensors, tmp_path / FILE)
    return tensors


def opened(tmp_path, digest=None):
    listed = {} if digest is None else {FILE: digest}
    return TensorFile(tmp_path / FILE, Checksums(tmp_path, listed))


def digest_of(tmp_path):
    return hashlib.sha256((tmp_path / FILE).read_bytes()).hexdigest()


@pytest.mark.parametrize("order", [NAMES, NAMES[::-1], NAMES[4:] + NAMES[:4]])
def test_tensors_can_be_taken_in_any_order(order, stored, tmp_path, monkeypatch):
    monkeypatch.setattr(tensor_stream, "_AHEAD_BYTES", 1)
    file = opened(tmp_path, digest_of(tmp_path))
    file.prefetch(NAMES)
    for name in order:
        assert torch.equal(file.peek(name), stored[name])
        assert torch.equal(file.take(name), stored[name])
    file.verify()


def test_only_tensors_that_are_needed_soon_are_in_memory(stored, tmp_path, monkeypatch):
    monkeypatch.setattr(tensor_stream, "_AHEAD_BYTES", 50_000)
    file = opened(tmp_path)
    file.prefetch(NAMES)
    for name in NAMES:
        file.take(name)
        assert file._stream._ready_bytes <= 80_000
    file.verify()


def test_a_whole_file_is_read_before_any_tensor_is_taken(stored, tmp_path, monkeypatch):
    monkeypatch.setattr(tensor_stream, "_AHEAD_BYTES", 1)
    file = opened(tmp_path)
    file.prefetch(NAMES, whole=True)
    stream = file._stream
    with stream._changed:
        assert stream._changed.wait_for(lambda: stream._ended, 10)
    (tmp_path / FILE).write_bytes(b"overwritten")
    for name in NAMES:
        assert torch.equal(file.take(name), stored[name])
    file.verify()


def test_a_tensor_can_be_taken_once(stored, tmp_path):
    file = opened(tmp_path)
    file.prefetch(NAMES[:2])
    file.take(NAMES[0])
    with pytest.raises(KeyError):
        file.take(NAMES[0])
    with pytest.raises(KeyError):
        file.take(NAMES[5])
    file.verify()
    assert not file.prefetching


@pytest.mark.parametrize("taken", [0, 3, 8])
def test_damage_is_found_wherever_it_is(taken, stored, tmp_path):
    digest = digest_of(tmp_path)
    data = bytearray((tmp_path / FILE).read_bytes())
    data[-1] ^= 1
    (tmp_path / FILE).write_bytes(data)
    file = opened(tmp_path, digest)
    file.prefetch(NAMES)
    with pytest.raises(CheckpointError, match="is damaged: its SHA-256 must be"):
        for name in NAMES[:taken]:
            file.take(name)
        file.verify()


def test_a_file_that_shrinks_while_it_is_read_is_reported(stored, tmp_path, monkeypatch):
    monkeypatch.setattr(tensor_stream, "_AHEAD_BYTES", 1)
    file = opened(tmp_path)
    file.prefetch(NAMES)
    file.take(NAMES[0])
    with (tmp_path / FILE).open("r+b") as damaged:
        damaged.truncate(100_000)
    with pytest.raises(CheckpointError, match=r"was truncated while it was read|was changed while it was loaded"):
        for name in NAMES[1:]:
            file.take(name)
        file.verify()


def test_the_thread_ends_with_the_file(stored, tmp_path):
    file = opened(tmp_path)
    file.prefetch(NAMES)
    file.verify()
    assert not [thread for thread in threading.enumerate() if thread.name == "checkpoint" and thread.is_alive()]
