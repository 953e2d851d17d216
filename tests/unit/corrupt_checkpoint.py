"""Checkpoints with one defect."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from engine.checkpoint.folder import open_checkpoint
from engine.errors import CheckpointError


def rewrite(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Apply ``change`` to the object in a JSON file or to the tensors of a safetensors file."""
    if file.suffix == ".json":
        values = json.loads(file.read_text(encoding="utf-8"))
        change(values)
        file.write_text(json.dumps(values), encoding="utf-8")
    else:
        tensors = {name: tensor.clone() for name, tensor in load_file(file).items()}
        change(tensors)
        save_file(tensors, file)


def open_error(folder: Path) -> str:
    """The error message of opening a defective checkpoint."""
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(str(folder))
    assert caught.value.code == "bad_checkpoint"
    return caught.value.message
