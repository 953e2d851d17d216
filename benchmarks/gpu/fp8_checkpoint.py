"""Writes a checkpoint whose code predictor has the fp8-rounded matrices of ``talker.vllm.fp8_predictor``.

    python -m benchmarks.gpu.fp8_checkpoint CHECKPOINT FOLDER
    make judge CHECKPOINT=FOLDER

With it, any engine can run the fp8 weights, so their effect on a trained checkpoint can be judged without a GPU.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.checkpoint.checksums import SUMS_FILE
from engine.talker.fused.fp8 import round_matrices_to_fp8

_PREDICTOR = "code_predictor."
_MATRICES = ("_proj.weight", "small_to_mtp_projection.weight")
_HEADS = f"{_PREDICTOR}lm_head."
_TENSORS = "model.safetensors"


def main() -> None:
    """Write the checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    print(f"{write_fp8_checkpoint(given.checkpoint, given.folder)} matrices rounded to fp8 in {given.folder}")


def write_fp8_checkpoint(checkpoint: Path, folder: Path) -> int:
    """Copy the checkpoint with rounded matrices. Return their number. ``folder`` must not exist."""
    shutil.copytree(checkpoint, folder, ignore=shutil.ignore_patterns(SUMS_FILE))
    tensors = load_file(folder / _TENSORS)
    matrices = fp8_matrices(tensors)
    save_file(tensors | matrices, folder / _TENSORS, {"format": "pt"})
    return len(matrices)


def fp8_matrices(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the code predictor's matrices among ``tensors``, rounded to fp8. Names may have the prefix "talker."."""
    matrices = {name: each for name, each in tensors.items() if _is_matrix(name.removeprefix("talker."))}
    return round_matrices_to_fp8(matrices)


def _is_matrix(name: str) -> bool:
    return name.startswith(_HEADS) or (name.startswith(_PREDICTOR) and name.endswith(_MATRICES))


if __name__ == "__main__":
    main()
