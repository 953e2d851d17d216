"""The output of a run: talker.safetensors for the checkpoint folder, and state.pt to resume from."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from engine.checkpoint.architecture import ModelArchitecture
from engine.checkpoint.layout import model_shapes
from scripts.train_pocket.talker.trainer import Trainer

WEIGHTS, STATE = "talker.safetensors", "state.pt"
_PREFIX = "talker."


def save(trainer: Trainer, folder: Path, progress: float) -> None:
    """Write both files atomically. progress: position in the schedule, 0 to 1.

    Raises ValueError, and does not change the files, when a weight is not finite.
    """
    if not all(bool(weight.isfinite().all()) for weight in trainer.average.parameters()):
        raise ValueError(f"weights are NaN or infinite after {trainer.steps} steps; {folder} is unchanged")
    folder.mkdir(parents=True, exist_ok=True)
    write_weights(trainer, folder / WEIGHTS, progress)
    temporary = folder / f".{STATE}"
    state = {
        "model": trainer.model.state_dict(),
        "average": trainer.average.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in trainer.optimizers],
        "steps": trainer.steps,
        "progress": progress,
    }
    torch.save(state, temporary)
    temporary.replace(folder / STATE)


def write_weights(trainer: Trainer, file: Path, progress: float) -> None:
    """Write the averaged weights in bfloat16 with their published names."""
    bfloat16 = {
        _PREFIX + name: tensor.to("cpu", torch.bfloat16).contiguous()
        for name, tensor in trainer.average.state_dict().items()
    }
    temporary = file.with_name(f".{file.name}")
    metadata = {"format": "pt", "steps": str(trainer.steps), "progress": f"{progress:.4f}"}
    save_file(bfloat16, temporary, metadata=metadata)
    temporary.chmod(0o644)
    temporary.replace(file)


def resume(trainer: Trainer, folder: Path) -> float:
    """Resume from state.pt in ``folder``, or only from its weights. Return the position in its schedule."""
    if (folder / STATE).is_file():
        return _from_state(trainer, folder / STATE)
    return _from_weights(trainer, folder / WEIGHTS)


def _from_state(trainer: Trainer, file: Path) -> float:
    state = torch.load(file, map_location=next(trainer.model.parameters()).device, weights_only=True)
    trainer.model.load_state_dict(state["model"])
    trainer.average.load_state_dict(state["average"])
    for optimizer, state_of_optimizer in zip(trainer.optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(state_of_optimizer)
    trainer.steps = state["steps"]
    return float(state["progress"])


def _from_weights(trainer: Trainer, file: Path) -> float:
    with safe_open(file, framework="pt") as tensors:
        metadata = tensors.metadata() or {}
        weights = {name.removeprefix(_PREFIX): tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118
    trainer.model.load_state_dict(weights)
    trainer.average.load_state_dict(weights)
    trainer.steps = int(metadata.get("steps", "0"))
    return float(metadata.get("progress", "0"))


def check_names(trainer: Trainer, model: ModelArchitecture) -> None:
    """Raise ValueError unless the names and shapes of the weights are those that the engine expects."""
    expected = {name: shape for name, shape in model_shapes(model).items() if name.startswith(_PREFIX)}
    actual = {_PREFIX + name: tuple(tensor.shape) for name, tensor in trainer.model.state_dict().items()}
    if expected != actual:
        raise ValueError(
            f"names or shapes differ from the checkpoint's: {sorted(expected.items() ^ actual.items())[:4]}"
        )
