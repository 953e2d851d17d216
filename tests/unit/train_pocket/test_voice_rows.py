"""Voices of a checkpoint that are replaced by blends."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from engine.checkpoint.folder import open_checkpoint
from scripts.train_pocket.voice_rows import blended, set_rows

_POCKET = Path(__file__).parents[3] / "models" / "pocket"
_TABLE = "talker.model.codec_embedding.weight"


def test_a_blend_is_the_weighted_mean():
    vectors = {"a": np.array([0.0, 4.0], np.float32), "b": np.array([1.0, 0.0], np.float32)}
    assert blended({"a": 0.75, "b": 0.25}, vectors).tolist() == [0.25, 3.0]


def test_only_the_rows_of_the_named_voices_change(tmp_path):
    folder = shutil.copytree(_POCKET, tmp_path / "copy")
    before = load_file(folder / "model.safetensors")
    speakers = open_checkpoint(str(folder)).model.talker.speakers
    name, other = list(speakers)[:2]
    row = np.linspace(-1, 1, before[_TABLE].shape[1]).astype(np.float32)
    set_rows(folder, {name: row})
    after = load_file(folder / "model.safetensors")
    assert torch.equal(after[_TABLE][speakers[name]], torch.from_numpy(row).to(before[_TABLE].dtype))
    assert torch.equal(after[_TABLE][speakers[other]], before[_TABLE][speakers[other]])
    assert all(torch.equal(after[key], before[key]) for key in before if key != _TABLE)
    open_checkpoint(str(folder)).tensors("talker.")  # matches its new checksum
    with pytest.raises(KeyError):
        set_rows(folder, {"unknown": row})
