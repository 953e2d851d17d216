"""X-vectors lose the direction in which recordings of people differ from the training, and nothing else changes."""

import sys

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import load_file

from engine.checkpoint.folder import open_checkpoint
from engine.cloning.encoder import ReferenceEncoder
from scripts.train_pocket.assemble import LAST_SPEAKER_LAYER, assemble
from scripts.train_pocket.speaker import people_direction
from scripts.train_pocket.speaker.people_direction import x_vectors
from tests.unit.train_pocket.small_pocket import small_pocket


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    assemble(small_pocket(), folder, tokenizer=None, talker=None, speaker_encoder=None, codec=None)
    return folder


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Two folders, the second one with another recording that is too short."""
    rng, folders = np.random.default_rng(1), [tmp_path_factory.mktemp(name) for name in ("first", "second")]
    for number, seconds in enumerate((2.5, 3, 2.5, 1)):
        noise = rng.normal(0, 0.1, round(16_000 * seconds)).cumsum() * 0.01 * (number + 1)
        soundfile.write(folders[number // 2] / f"{number}.wav", noise.clip(-0.9, 0.9), 16_000)
    return folders


def vectors_of(checkpoint, folders):
    encoder = ReferenceEncoder(open_checkpoint(str(checkpoint)), torch.device("cpu"))
    return [x_vectors(encoder, folder) for folder in folders]


def test_x_vectors_lose_one_direction_and_keep_the_rest(checkpoint, recordings, monkeypatch, capsys):
    before, tensors = vectors_of(checkpoint, recordings), load_file(checkpoint / "model.safetensors")
    monkeypatch.setattr(sys, "argv", ["", "--checkpoint", str(checkpoint), *map(str, recordings)])
    people_direction.main()
    assert "first" in capsys.readouterr().out
    direction = people_direction.people_direction(before)
    for old, new in zip(before, vectors_of(checkpoint, recordings), strict=True):
        expected = old - np.outer(old @ direction, direction)
        np.testing.assert_allclose(new, expected, atol=0.02 * np.abs(old).max())
    changed = load_file(checkpoint / "model.safetensors")
    assert {name for name in tensors if not torch.equal(tensors[name], changed[name])} == set(LAST_SPEAKER_LAYER)


def test_folders_count_alike_however_many_recordings_they_have():
    few, many = np.array([[1.0, 0.0]], np.float32), np.array([[0.0, 5.0]] * 9, np.float32)
    np.testing.assert_allclose(people_direction.people_direction([few, many]), [0.5**0.5, 0.5**0.5])


def test_a_folder_without_long_recordings_is_refused(checkpoint, tmp_path):
    encoder = ReferenceEncoder(open_checkpoint(str(checkpoint)), torch.device("cpu"))
    with pytest.raises(ValueError, match="no recording of at least 2 s"):
        x_vectors(encoder, tmp_path)
