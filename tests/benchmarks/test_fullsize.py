"""Full-size random checkpoints have the tensors of the published ones, and prompts of the same lengths."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from benchmarks.lib.fullsize import full_size_codec, full_size_model
from engine.checkpoint.config import read_codec, read_model
from engine.checkpoint.layout import codec_shapes, model_shapes
from engine.prompt.tokenizer import TextTokenizer
from server.bench.workload import SENTENCES
from tests.support.random_checkpoint.tokenizer import write_tokenizer
from tests.support.random_checkpoint.weights import write_weights

PUBLISHED = Path(__file__).parents[1] / "unit" / "published_shapes.json.xz"
SPECIAL = ("assistant", "<|im_end|>", "<|im_start|>", "<tts_text_bos>", "<tts_text_eod>", "<tts_pad>")


def published() -> dict[str, dict[str, tuple[int, ...]]]:
    files = json.loads(lzma.decompress(PUBLISHED.read_bytes()))
    return {file: {name: tuple(shape) for name, shape in listing.items()} for file, listing in files.items()}


@pytest.mark.parametrize(
    ("size", "kind", "name"),
    [
        ("0.6b", "base", "0b6-base"),
        ("0.6b", "custom_voice", "0b6-custom_voice"),
        ("1.7b", "base", "1b7-base"),
        ("1.7b", "custom_voice", "1b7-custom_voice"),
        ("1.7b", "both", "1b7-base"),
    ],
)
def test_every_tensor_has_its_published_shape(size: str, kind: str, name: str) -> None:
    config = full_size_model({token: number for number, token in enumerate(SPECIAL)}, size, kind)
    model = read_model(config, Path("config.json"))
    assert model_shapes(model) == published()[name]
    assert bool(model.talker.speakers) == (kind != "base")


def test_the_codec_has_its_published_shapes() -> None:
    codec = read_codec(full_size_codec(), Path("config.json"))
    assert codec_shapes(codec) == published()["speech_tokenizer"]


def test_every_word_of_the_load_client_is_one_token(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, words_of=SENTENCES)
    tokenizer = TextTokenizer(tmp_path)
    for sentence in SENTENCES:
        marks = sum(sentence.count(mark) for mark in ".,?")
        assert len(tokenizer.encode(sentence)) == len(sentence.split()) + marks


def test_eos_is_never_among_the_fifty_likeliest_codes(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    shapes = {"talker.codec_head.weight": (3072, 1024)}
    write_weights(file, shapes, "full-size", torch.bfloat16, eos=2150, eos_gain=0.0)
    head = load_file(file)["talker.codec_head.weight"].float()
    logits = torch.randn(64, 1024, generator=torch.Generator().manual_seed(1)) @ head.T
    assert (logits[:, 2150] == 0).all()
    assert (logits[:, :2048].topk(50).values[:, -1] > 4).all()
