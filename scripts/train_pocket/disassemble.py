"""Takes a checkpoint folder apart, to continue the training from it. ``--help`` lists the options."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from engine.prompt.lexicon import LEXICON_FILE
from scripts.train_pocket.assemble import LAST_SPEAKER_LAYER, TOKENIZER_FILES, Tensors
from scripts.train_pocket.config import DEFAULT, Pocket, load


def disassemble(folder: Path, pocket: Pocket, out: Path) -> None:
    """Write talker.safetensors, speaker_encoder.safetensors, codec.safetensors and tokenizer/ to ``out``.

    Also lexicon.txt.gz, if the checkpoint has one. They are the inputs of ``assemble``, and of ``--resume`` of the
    training commands. The weights are bfloat16.
    """
    (out / "tokenizer").mkdir(parents=True, exist_ok=True)
    model = load_file(folder / "model.safetensors")
    _save(model, out / "talker.safetensors", lambda name: name.startswith("talker."))
    for name in LAST_SPEAKER_LAYER:
        model[name] = model[name].float() / pocket.talker.xvector_scale
    _save(model, out / "speaker_encoder.safetensors", lambda name: name.startswith("speaker_encoder."))
    _save(load_file(folder / "speech_tokenizer" / "model.safetensors"), out / "codec.safetensors", lambda _: True)
    for name in TOKENIZER_FILES:
        shutil.copyfile(folder / name, out / "tokenizer" / name)
    if (folder / LEXICON_FILE).exists():
        shutil.copyfile(folder / LEXICON_FILE, out / LEXICON_FILE)


def _save(tensors: Tensors, file: Path, belongs: Callable[[str], bool]) -> None:
    part = {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in tensors.items() if belongs(name)}
    save_file(part, file, metadata={"format": "pt", "steps": "0", "progress": "0"})


def main() -> None:
    """Take the folder apart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True, help="the checkpoint folder")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--config", type=Path, default=DEFAULT)
    args = parser.parse_args()
    disassemble(args.checkpoint, load(args.config), args.out)


if __name__ == "__main__":
    main()
