"""One safetensors file: its header checked against the shapes it must hold, its tensors read."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from engine.errors import CheckpointError
from engine.layout import Shapes

_FLOATS = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
_COMPUTED = ".inv_freq"
"""Rotary frequencies that some tools save; they are computed from rope_theta and never read."""
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


class TensorFile:
    """A safetensors file. Raises CheckpointError when it is missing, cut short or something else."""

    def __init__(self, path: Path) -> None:
        _check_present(path)
        self.path = path
        try:
            with safe_open(path, framework="pt") as file:
                slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
                self._found = {name: (tuple(s.get_shape()), s.get_dtype()) for name, s in slices.items()}
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{path} is not a whole safetensors file: {error}") from error

    def has_any(self, prefix: str) -> bool:
        """Whether any tensor's name starts with ``prefix``."""
        return any(name.startswith(prefix) for name in self._found)

    def check(self, expected: Shapes) -> None:
        """Compare names, shapes and dtypes, reading no data. Raises CheckpointError for the first fault.

        Tensors beside the expected parts (the first words of the expected names) are never read and
        so harmless; more of them inside a part mean that config.json describes another model.
        """
        for name, shape in expected.items():
            if name not in self._found:
                raise CheckpointError(f"{self.path}: the tensor {name} {_shown(shape)} is missing")
            found, dtype = self._found[name]
            if found != shape:
                raise CheckpointError(
                    f"{self.path}: the tensor {name} must have the shape {_shown(shape)}, found {_shown(found)}"
                )
            if dtype not in _FLOATS:
                wanted = ", ".join(_FLOATS.values())
                raise CheckpointError(f"{self.path}: the tensor {name} must be of {wanted}, found {dtype}")
        parts = {name.split(".")[0] for name in expected}
        for name in sorted(self._found.keys() - expected.keys()):
            if name.split(".")[0] in parts and not name.endswith(_COMPUTED):
                raise CheckpointError(
                    f"{self.path}: the tensor {name} {_shown(self._found[name][0])} has no place in the "
                    "model that config.json describes"
                )

    def read(self, prefix: str, expected: Shapes) -> dict[str, torch.Tensor]:
        """The expected tensors under ``prefix``, with it taken off their names, in their stored dtype."""
        with safe_open(self.path, framework="pt") as file:
            names = [name for name in expected if name.startswith(prefix)]
            return {name.removeprefix(prefix): file.get_tensor(name) for name in names}


def _check_present(path: Path) -> None:
    if path.is_file():
        return
    beside = path.parent
    if list(beside.glob("model-*-of-*.safetensors")):
        raise CheckpointError(f"{path} is missing; merge the parts of {beside} into this one file")
    pickles = sorted(file.name for pattern in _PICKLES for file in beside.glob(pattern))
    if pickles:
        raise CheckpointError(
            f"{path} is missing; {pickles[0]} is a pickle, which can run code and is never loaded: "
            "convert it to safetensors"
        )
    raise CheckpointError(f"{path} is missing")


def _shown(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"
