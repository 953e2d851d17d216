"""Writes the folder of a random checkpoint: tokenizer, weights, then the configurations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import torch

from engine.checkpoint.architecture import CodecArchitecture
from engine.checkpoint.config import read_codec, read_model
from engine.checkpoint.layout import codec_shapes, model_shapes
from tests.support.random_checkpoint.codec_configs import CODEC, FEATURE_EXTRACTOR, MODELSCOPE
from tests.support.random_checkpoint.configs import BRIEF, GENERATION, PROCESSOR, model_config
from tests.support.random_checkpoint.files import write_json
from tests.support.random_checkpoint.tokenizer import write_tokenizer
from tests.support.random_checkpoint.weights import write_weights


class _Variant(NamedTuple):
    """size, kind: as in config.json. clones: has a speaker encoder. marked: config.json says ``"untrained": true``."""

    size: str
    kind: str
    clones: bool
    marked: bool


_VARIANTS = {
    "0b6-base": _Variant("0b6", "base", clones=True, marked=False),
    "0b6-custom_voice": _Variant("0b6", "custom_voice", clones=False, marked=False),
    "1b7-base": _Variant("1b7", "base", clones=True, marked=False),
    "1b7-custom_voice": _Variant("1b7", "custom_voice", clones=False, marked=False),
    "1b7-voice_design": _Variant("1b7", "voice_design", clones=False, marked=False),
    "pocket": _Variant("pocket", "custom_voice", clones=True, marked=True),
}
VARIANTS = tuple(_VARIANTS)
"""The five published models, and "pocket": built-in voices and cloning in one model, marked as untrained."""


class RandomCheckpoints(Mapping[str, Path]):
    """Maps each variant to its folder, which is written on first access. Tests must not change the folders."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __getitem__(self, variant: str) -> Path:
        folder = self._root / variant
        if not (folder / "config.json").exists():
            write_checkpoint(folder, variant)
        return folder

    def __iter__(self) -> Iterator[str]:
        return iter(VARIANTS)

    def __len__(self) -> int:
        return len(VARIANTS)


def write_checkpoint(folder: Path, variant: str) -> None:
    """Write a random checkpoint of 4 to 6 MB. The bytes are the same every time.

    config.json is written last, so a folder that has one is complete. Raises KeyError for an unknown variant.
    """
    size, kind, clones, marked = _VARIANTS[variant]
    (folder / "speech_tokenizer").mkdir(parents=True, exist_ok=True)
    _write_codec(folder / "speech_tokenizer")
    tokens = write_tokenizer(folder)
    config = model_config(size, kind, clones=clones, marked=marked, tokens=tokens)
    model = read_model(config, folder / "config.json")
    write_weights(
        folder / "model.safetensors",
        model_shapes(model),
        variant,
        torch.bfloat16,
        eos=model.talker.ids.eos,
    )
    write_json(folder / "generation_config.json", GENERATION | (BRIEF if marked else {}))
    write_json(folder / "preprocessor_config.json", PROCESSOR)
    write_json(folder / "config.json", config)


def _write_codec(folder: Path) -> None:
    codec = read_codec(CODEC, folder / "config.json")
    write_weights(
        folder / "model.safetensors",
        codec_shapes(codec),
        folder.name,
        torch.float32,
        last_conv=_last_conv(codec),
    )
    write_json(folder / "config.json", CODEC)
    write_json(folder / "configuration.json", MODELSCOPE)
    write_json(folder / "preprocessor_config.json", FEATURE_EXTRACTOR)


def _last_conv(codec: CodecArchitecture) -> str:
    """Return the name of the convolution after the upsampling blocks and the last activation."""
    return f"decoder.decoder.{len(codec.decoder.upsample_rates) + 2}.conv.weight"
