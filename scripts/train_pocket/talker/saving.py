"""What a run leaves: talker.safetensors for the checkpoint's folder, and state.pt to go on from."""

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
    """Write both files, each under another name first. progress: of the schedule, 0 to 1.

    Raises ValueError, and leaves the files as they are, where a weight is not finite.
    """
    if not all(bool(weight.isfinite().all()) for weight in trainer.average.parameters()):
        raise ValueError(f"the weights are not finite after {trainer.steps} steps; {folder} is left as it was")
    folder.mkdir(parents=True, exist_ok=True)
    write_weights(trainer, folder / WEIGHTS, progress)
    unfinished = folder / f".{STATE}"
    state = {
        "model": trainer.model.state_dict(),
        "average": trainer.average.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in trainer.optimizers],
        "steps": trainer.steps,
        "progress": progress,
    }
    torch.save(state, unfinished)
    unfinished.replace(folder / STATE)


def write_weights(trainer: Trainer, file: Path, progress: float) -> None:
    """The averaged weights in bfloat16 under their published names."""
    halves = {
        _PREFIX + name: tensor.to("cpu", torch.bfloat16).contiguous()
        for name, tensor in trainer.average.state_dict().items()
    }
    unfinished = file.with_name(f".{file.name}")
    metadata = {"format": "pt", "steps": str(trainer.steps), "progress": f"{progress:.4f}"}
    save_file(halves, unfinished, metadata=metadata)
    unfinished.chmod(0o644)
    unfinished.replace(file)


def resume(trainer: Trainer, folder: Path) -> float:
    """Go on from a folder's state.pt, or from its weights alone. Returns the progress of its schedule."""
    if (folder / STATE).is_file():
        return _from_state(trainer, folder / STATE)
    return _from_weights(trainer, folder / WEIGHTS)


def _from_state(trainer: Trainer, file: Path) -> float:
    state = torch.load(file, map_location=next(trainer.model.parameters()).device, weights_only=True)
    trainer.model.load_state_dict(state["model"])
    trainer.average.load_state_dict(state["average"])
    for optimizer, own in zip(trainer.optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(own)
    trainer.steps = state["steps"]
    return float(state["progress"])


def _from_weights(trainer: Trainer, file: Path) -> float:
    with safe_open(file, framework="pt") as opened:
        metadata = opened.metadata() or {}
        weights = {name.removeprefix(_PREFIX): opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    trainer.model.load_state_dict(weights)
    trainer.average.load_state_dict(weights)
    trainer.steps = int(metadata.get("steps", "0"))
    return float(metadata.get("progress", "0"))


def check_names(trainer: Trainer, model: ModelArchitecture) -> None:
    """Raise ValueError unless the weights are those that the engine asks for."""
    wanted = {name: shape for name, shape in model_shapes(model).items() if name.startswith(_PREFIX)}
    found = {_PREFIX + name: tuple(tensor.shape) for name, tensor in trainer.model.state_dict().items()}
    if wanted != found:
        raise ValueError(f"not as in the checkpoint: {sorted(wanted.items() ^ found.items())[:4]}")
