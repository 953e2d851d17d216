"""Writes a packed checkpoint: ``python -m engine.pack CHECKPOINT OUT --weights int4``.

The talker's layers and the text embedding are quantized. With int8 a packed checkpoint gives the same speech as the
original one with the same ``engine.talker.weights``, which the engine quantizes at startup. With int4 it is more
accurate: the talker first speaks some sentences, and the codes are those that change its products least.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from engine.checkpoint.checksums import SUMS_FILE, Checksums
from engine.checkpoint.folder import FILES, OWN_FILES, Checkpoint, open_checkpoint
from engine.checkpoint.json_file import read_json
from engine.checkpoint.layout import model_shapes
from engine.checkpoint.packing import VERSION, QuantizedFormat, is_table, packed_format
from engine.device.timing import torch_threads
from engine.errors import CheckpointError, EngineError
from engine.kernels.gptq import quantize_for_inputs
from engine.kernels.quantization import quantize_groups, quantize_rows, quantize_table
from engine.system.cores import available_cores
from engine.system.process import exit_immediately
from engine.system.regular_file import open_regular
from engine.talker.native.input_moments import measure_input_moments

_CONFIG, _MODEL = "config.json", "model.safetensors"
_COPIED = (*(name for name in FILES if name not in (_CONFIG, _MODEL)), *OWN_FILES, "LICENSE")
_COPY_BYTES = 4 << 20
_MAX_WORKERS = 4


def main() -> None:
    """Pack the checkpoint of the command line. Reports expected errors as one line, with exit code 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", help="folder or hub name")
    parser.add_argument("out", type=Path, help="the folder to write")
    parser.add_argument("--weights", choices=get_args(QuantizedFormat), default="int4")
    args = parser.parse_args()
    torch.set_num_threads(available_cores())
    began = time.monotonic()
    try:
        checkpoint = open_checkpoint(args.checkpoint)
        pack(checkpoint, args.out, args.weights)
        sizes = [(folder / _MODEL).stat().st_size / 1e9 for folder in (checkpoint.folder, args.out)]
    except (EngineError, OSError, SafetensorError) as error:
        print("sonant pack:", " ".join(str(error).split()), file=sys.stderr)
        raise SystemExit(1) from None
    print(
        f"{args.out}: {_MODEL} has {sizes[1]:.2f} GB instead of {sizes[0]:.2f} GB; packed with {args.weights} in "
        f"{time.monotonic() - began:.0f} s"
    )
    exit_immediately()


def pack(checkpoint: Checkpoint, out: Path, weights: QuantizedFormat) -> None:
    """Write a packed checkpoint to the folder ``out``, which appears when it is complete.

    Raises CheckpointError if the checkpoint is packed already, does not match its checksums, or if ``out`` is not
    empty, or in int4 if its activations are infinite or NaN. Raises OSError or SafetensorError if the files cannot be
    written.
    """
    if checkpoint.model.packing is not None:
        raise CheckpointError(
            f"{checkpoint.folder} must be an original checkpoint, but it is packed with "
            f"{checkpoint.model.packing.weights}"
        )
    if os.path.lexists(out) and not (out.is_dir() and not any(out.iterdir())):
        raise CheckpointError(f"{out} must not exist or be an empty folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".sonant-pack-", dir=out.parent) as work:
        folder = Path(work, "packed")
        (folder / "speech_tokenizer").mkdir(parents=True)
        _write(checkpoint, folder, weights)
        folder.rename(out)


def _write(checkpoint: Checkpoint, folder: Path, weights: QuantizedFormat) -> None:
    tensors: dict[str, Tensor] = {}
    names = sorted(model_shapes(checkpoint.model))  # usually the order of the file
    moments = measure_input_moments(checkpoint) if weights == "int4" else {}
    # Tensors are quantized in parallel, with one thread each. In int4 each takes up to 1 GB for 1.7B.
    workers = min(_MAX_WORKERS, available_cores())
    with torch_threads(1), checkpoint.stream("") as source, ThreadPoolExecutor(workers) as pool:
        for packed in pool.map(lambda name: _packed(name, source.pop(name), weights, moments.pop(name, None)), names):
            tensors |= packed
    save_file(tensors, folder / _MODEL, metadata={"format": "pt"})
    checksums = Checksums.load(checkpoint.folder)
    for name in _COPIED:
        if (checkpoint.folder / name).exists():
            _copy(checkpoint.folder / name, folder / name, checksums)
    config = read_json(checkpoint.folder / _CONFIG, checksums)
    config["quantization_config"] = {"quant_method": "sonant", "version": VERSION, "weights": weights}
    (folder / _CONFIG).write_text(json.dumps(config, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    shutil.copymode(folder / _CONFIG, folder / _MODEL)  # save_file gives access to the owner only
    written = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
    (folder / SUMS_FILE).write_text("".join(f"{_digest(folder / name)}  {name}\n" for name in written))


@torch.inference_mode()
def _packed(name: str, tensor: Tensor, weights: QuantizedFormat, moments: Tensor | None) -> Mapping[str, Tensor]:
    """Return the tensors that replace one of the original checkpoint. moments: of the inputs of a matrix, if known."""
    base = name.removesuffix("weight")
    match packed_format(name, tuple(tensor.shape), weights):
        case None:
            return {name: tensor}
        case "int8":
            codes = quantize_table(tensor) if is_table(name) else quantize_rows(tensor.float())
            return {f"{base}int8": codes.codes, f"{base}scales": codes.scales}
        case "int4":
            weight = tensor.float()
            groups = quantize_groups(weight) if moments is None else quantize_for_inputs(weight, moments)
            return {
                f"{base}int4": groups.packed,
                f"{base}scales": groups.scales,
                f"{base}offsets": groups.offsets,
            }


def _copy(source: Path, target: Path, checksums: Checksums) -> None:
    """Copy a file. Raises CheckpointError if it does not match its checksum."""
    digest = hashlib.sha256()
    with open_regular(source) as file, target.open("wb") as copy:
        while piece := file.read(_COPY_BYTES):
            digest.update(piece)
            copy.write(piece)
    checksums.check(source, digest.hexdigest())


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


if __name__ == "__main__":
    main()
