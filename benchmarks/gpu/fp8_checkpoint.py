"""A checkpoint whose code predictor has the matrices that ``talker.vllm.fp8_predictor`` reads, for any engine.

    python -m benchmarks.gpu.fp8_checkpoint CHECKPOINT FOLDER
    make judge CHECKPOINT=FOLDER

How a trained checkpoint speaks with weights of eight bits can so be heard where no GPU is.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.checkpoint.checksums import SUMS_FILE
from engine.talker.fused.fp8 import rounded_matrices

_PREDICTOR = "code_predictor."
_MATRICES = ("_proj.weight", "small_to_mtp_projection.weight")
_HEADS = f"{_PREDICTOR}lm_head."
_TENSORS = "model.safetensors"


def main() -> None:
    """Write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    print(f"{write_fp8_checkpoint(given.checkpoint, given.folder)} matrices are of eight bits in {given.folder}")


def write_fp8_checkpoint(checkpoint: Path, folder: Path) -> int:
    """Copy the checkpoint with other matrices; how many they are. folder: what is not there yet."""
    shutil.copytree(checkpoint, folder, ignore=shutil.ignore_patterns(SUMS_FILE))
    tensors = load_file(folder / _TENSORS)
    matrices = fp8_matrices(tensors)
    save_file(tensors | matrices, folder / _TENSORS, {"format": "pt"})
    return len(matrices)


def fp8_matrices(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The code predictor's of a checkpoint's tensors, with or without "talker." before their names, in eight bits."""
    return rounded_matrices({name: each for name, each in tensors.items() if _is_matrix(name.removeprefix("talker."))})


def _is_matrix(name: str) -> bool:
    return name.startswith(_HEADS) or (name.startswith(_PREDICTOR) and name.endswith(_MATRICES))


if __name__ == "__main__":
    main()
