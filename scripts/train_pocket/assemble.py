"""Assembles the checkpoint folder from the trained parts. ``--help`` lists the options."""

from __future__ import annotations

import argparse
import hashlib
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from engine.checkpoint.checksums import SUMS_FILE
from engine.checkpoint.folder import FILES, OWN_FILES, Checkpoint, open_checkpoint
from engine.checkpoint.layout import Shapes, codec_shapes, model_shapes
from engine.checkpoint.speech_profile import PROFILE_FILE
from engine.prompt.lexicon import LEXICON_FILE
from scripts.train_pocket.config import DEFAULT, Pocket, load
from scripts.train_pocket.folder import (
    SPECIAL_TOKENS,
    codec_architecture,
    codec_config,
    model_architecture,
    model_config,
)
from tests.support.random_checkpoint.codec_configs import FEATURE_EXTRACTOR, MODELSCOPE
from tests.support.random_checkpoint.configs import BRIEF, PROCESSOR
from tests.support.random_checkpoint.files import write_json
from tests.support.random_checkpoint.tokenizer import write_tokenizer
from tests.support.random_checkpoint.weights import write_weights

TOKENIZER_FILES = ("vocab.json", "merges.txt", "tokenizer_config.json")
LAST_SPEAKER_LAYER = ("speaker_encoder.fc.weight", "speaker_encoder.fc.bias")
Tensors = dict[str, torch.Tensor]


def assemble(
    pocket: Pocket,
    out: Path,
    *,
    tokenizer: Path | None,
    talker: Path | None,
    speaker_encoder: Path | None,
    codec: Path | None,
    lexicon: Path | None = None,
) -> Checkpoint:
    """Write the folder and open it like the engine.

    A part that is None gets random weights, a tokenizer that is None one of a few hundred tokens. A lexicon that is
    None is left out. Without a talker, the checkpoint is marked as untrained. config.json is written after the files
    that it describes, so it marks a complete folder, and SHA256SUMS is written last. Raises CheckpointError when a part
    does not fit the configuration.
    """
    lexicon_data = None if lexicon is None else lexicon.read_bytes()
    (out / "speech_tokenizer").mkdir(parents=True, exist_ok=True)
    for name in ("config.json", SUMS_FILE):
        (out / name).unlink(missing_ok=True)
    _write_tokenizer_files(out, tokenizer, pocket)
    (out / LEXICON_FILE).unlink(missing_ok=True)
    if lexicon_data is not None:
        (out / LEXICON_FILE).write_bytes(lexicon_data)
    shapes = model_shapes(model_architecture(pocket))
    tensors = _part(talker, _named(shapes, "talker."), pocket)
    tensors |= _with_scale(_part(speaker_encoder, _named(shapes, "speaker_encoder."), pocket), pocket)
    save_tensors(out / "model.safetensors", tensors)
    codec_tensors = _part(codec, codec_shapes(codec_architecture(pocket)), pocket)
    save_tensors(out / "speech_tokenizer" / "model.safetensors", codec_tensors)
    _write_configurations(out, pocket, trained=talker is not None)
    write_sums(out)
    return open_checkpoint(str(out))


def _named(shapes: Shapes, prefix: str) -> Shapes:
    return {name: shape for name, shape in shapes.items() if name.startswith(prefix)}


def _part(file: Path | None, shapes: Shapes, pocket: Pocket) -> Tensors:
    """Return the tensors in the file of a part, or random ones without a file."""
    if file is not None:
        return load_file(file)
    eos = model_architecture(pocket).talker.ids.eos
    with tempfile.TemporaryDirectory() as folder:
        random_file = Path(folder) / "random.safetensors"
        write_weights(
            random_file, shapes, "train_pocket", torch.float32, eos=eos, last_conv="decoder.decoder.6.conv.weight"
        )
        return load_file(random_file)


def _with_scale(speaker_encoder: Tensors, pocket: Pocket) -> Tensors:
    """Scale the speaker encoder's last layer to the size of embedding rows, as in the talker's training."""
    for name in LAST_SPEAKER_LAYER:
        speaker_encoder[name] = speaker_encoder[name].float() * pocket.talker.xvector_scale
    return speaker_encoder


def save_tensors(file: Path, tensors: Tensors) -> None:
    """Write the tensors as bfloat16."""
    bfloat16 = {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in tensors.items()}
    save_file(bfloat16, file, metadata={"format": "pt"})
    file.chmod(0o644)


def _write_tokenizer_files(out: Path, tokenizer: Path | None, pocket: Pocket) -> None:
    if tokenizer is not None:
        for name in TOKENIZER_FILES:
            shutil.copyfile(tokenizer / name, out / name)
        return
    write_tokenizer(out)
    first = pocket.texts.vocabulary
    added = {str(first + index): {"content": token, "special": True} for index, token in enumerate(SPECIAL_TOKENS)}
    write_json(out / "tokenizer_config.json", {"added_tokens_decoder": added, "tokenizer_class": "Qwen2Tokenizer"})


def _write_configurations(out: Path, pocket: Pocket, *, trained: bool) -> None:
    mark: dict[str, Any] = {} if trained else {"untrained": True}
    generation = {"do_sample": True, "subtalker_dosample": True, **pocket.generation.model_dump()}
    write_json(out / "generation_config.json", generation | ({} if trained else BRIEF))
    write_json(out / PROFILE_FILE, asdict(pocket.profile))
    write_json(out / "preprocessor_config.json", PROCESSOR)
    write_json(out / "speech_tokenizer" / "config.json", codec_config(pocket))
    write_json(out / "speech_tokenizer" / "configuration.json", MODELSCOPE)
    write_json(out / "speech_tokenizer" / "preprocessor_config.json", FEATURE_EXTRACTOR)
    write_json(out / "config.json", mark | model_config(pocket))


def write_sums(out: Path) -> None:
    """Write SHA256SUMS with all files that the engine verifies."""
    names = sorted(name for name in (*FILES, *OWN_FILES) if (out / name).exists())
    lines = [f"{hashlib.sha256((out / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (out / SUMS_FILE).write_text("".join(lines), encoding="utf-8", newline="\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    parser.add_argument("--tokenizer", type=Path, help="folder with " + ", ".join(TOKENIZER_FILES))
    parser.add_argument("--talker", type=Path, help="talker.safetensors")
    parser.add_argument("--speaker-encoder", type=Path, help="speaker_encoder.safetensors")
    parser.add_argument("--codec", type=Path, help="codec.safetensors")
    parser.add_argument("--lexicon", type=Path, help=f"{LEXICON_FILE}; default none")
    parser.add_argument("--random-missing", action="store_true", help="use random weights for missing parts")
    parser.add_argument("--config", type=Path, default=DEFAULT)
    args = parser.parse_args()
    parts = ("tokenizer", "talker", "speaker_encoder", "codec")
    missing = [name for name in parts if getattr(args, name) is None]
    if missing and not args.random_missing:
        parser.error("missing: " + ", ".join(missing) + "; --random-missing replaces them by random weights")
    return args


def main() -> None:
    """Assemble the folder and print its size."""
    args = _arguments()
    checkpoint = assemble(
        load(args.config),
        args.out,
        tokenizer=args.tokenizer,
        talker=args.talker,
        speaker_encoder=args.speaker_encoder,
        codec=args.codec,
        lexicon=args.lexicon,
    )
    size = sum(file.stat().st_size for file in args.out.rglob("*") if file.is_file())
    print(f"{checkpoint.folder}: {size / 1e6:.1f} MB, speakers {', '.join(checkpoint.model.talker.speakers)}")


if __name__ == "__main__":
    main()
