"""A checkpoint whose code predictor has the matrices that ``talker.vllm.fp8_predictor`` reads, for any engine.

    python -m benchmarks.fp8_checkpoint CHECKPOINT FOLDER
    make judge CHECKPOINT=FOLDER

How a trained checkpoint speaks with weights of eight bits can so be heard where no GPU is.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from safetensors.torch import load_file, save_file

from engine.talker.fused.eight_bits import rounded_matrices

_PREDICTOR = "talker.code_predictor."
_MATRICES = ("_proj.weight", "small_to_mtp_projection.weight")
_HEADS = f"{_PREDICTOR}lm_head."
_TENSORS = "model.safetensors"


def main() -> None:
    """Write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    shutil.copytree(given.checkpoint, given.folder)
    tensors = load_file(given.folder / _TENSORS)
    matrices = {name: each for name, each in tensors.items() if _is_matrix(name)}
    save_file(tensors | rounded_matrices(matrices), given.folder / _TENSORS, {"format": "pt"})
    print(f"{len(matrices)} matrices of {len(tensors)} tensors are of eight bits in {given.folder}")


def _is_matrix(name: str) -> bool:
    return name.startswith(_HEADS) or (name.startswith(_PREDICTOR) and name.endswith(_MATRICES))


if __name__ == "__main__":
    main()
