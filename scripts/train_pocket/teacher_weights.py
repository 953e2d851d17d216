"""Converts the published Kokoro-82M (Apache-2.0) for the teacher: safetensors instead of pickle, half precision."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import save_file

from scripts.train_pocket.teacher_model import build


def convert(published: Path, out: Path) -> None:
    """Convert config.json, kokoro-v1_0.pth and voices/*.pt to vocab.json, w0.safetensors and voices_all.npz."""
    out.mkdir(parents=True, exist_ok=True)
    vocabulary = json.loads((published / "config.json").read_text(encoding="utf-8"))["vocab"]
    (out / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
    weights = build(vocabulary, published / "kokoro-v1_0.pth").state_dict()
    save_file(
        {name: tensor.half().contiguous() for name, tensor in weights.items() if _is_weight(name)},
        out / "w0.safetensors",
    )
    packs = {file.stem: _pack(file) for file in sorted((published / "voices").glob("*.pt"))}
    np.savez(out / "voices_all.npz", **packs)  # type: ignore[arg-type]


def _is_weight(name: str) -> bool:
    """Return false for ALBERT's integer positions, which its constructor creates."""
    return not name.endswith(("position_ids", "token_type_ids"))


def _pack(file: Path) -> npt.NDArray[np.float16]:
    tensor = torch.load(file, map_location="cpu", weights_only=True)
    pack: npt.NDArray[np.float16] = tensor.reshape(len(tensor), -1).numpy().astype(np.float16)
    return pack


def main() -> None:
    """Parse the arguments and convert."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--published", type=Path, required=True, help="a local copy of hexgrad/Kokoro-82M")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    convert(options.published, options.out)


if __name__ == "__main__":
    main()
