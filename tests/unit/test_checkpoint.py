"""Opening checkpoints from folders: complete ones, and ones with one defect."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from engine.checkpoint.config import read_codec, read_model
from engine.checkpoint.folder import FILES, open_checkpoint
from engine.checkpoint.layout import codec_shapes, model_shapes
from tests.support.random_checkpoint import VARIANTS
from tests.unit import published
from tests.unit.corrupt_checkpoint import open_error, rewrite

MODEL, CODEC = "model.safetensors", "speech_tokenizer/model.safetensors"
CONFIG = "config.json"
NORM = "talker.model.norm.weight"


@pytest.fixture
def folder(checkpoints, tmp_path) -> Path:
    return shutil.copytree(checkpoints["pocket"], tmp_path / "checkpoint")


@pytest.mark.parametrize("name", published.MODELS)
def test_every_published_model_has_exactly_the_expected_tensors(name):
    model = read_model(published.model_config(name), Path(CONFIG))
    assert model_shapes(model) == published.shapes()[name]


def test_the_published_codec_has_exactly_the_expected_tensors():
    codec = read_codec(published.CODEC, Path("speech_tokenizer/config.json"))
    assert codec_shapes(codec) == published.shapes()["speech_tokenizer"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_complete_checkpoint_opens(checkpoints, variant):
    checkpoint = open_checkpoint(str(checkpoints[variant]))
    assert (checkpoint.model.speaker_encoder is not None) == (variant.endswith("base") or variant == "pocket")
    assert checkpoint.codec.encoder is not None
    assert checkpoint.generation.max_new_tokens == (126 if variant == "pocket" else 8192)
    assert checkpoint.model.trained == (variant != "pocket")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_weights_keep_their_stored_float_type(folder, dtype):
    rewrite(folder / MODEL, lambda tensors: tensors.update({n: t.to(dtype) for n, t in tensors.items()}))
    assert {tensor.dtype for tensor in open_checkpoint(str(folder)).tensors("").values()} == {dtype}


@pytest.mark.parametrize("prefix", ["talker.text_projection", "talker.text_projection."])
def test_tensors_are_returned_without_their_prefix(folder, prefix):
    tensors = open_checkpoint(str(folder)).tensors(prefix)
    assert tensors.keys() == {f"linear_fc{i}.{kind}" for i in "12" for kind in ("weight", "bias")}
    stored = load_file(folder / MODEL)["talker.text_projection.linear_fc1.bias"]
    assert torch.equal(tensors["linear_fc1.bias"], stored)


def test_codec_tensors_are_read_from_the_codec_file(folder):
    tensors = open_checkpoint(str(folder)).codec_tensors("decoder.pre_conv")
    assert torch.equal(tensors["conv.bias"], load_file(folder / CODEC)["decoder.pre_conv.conv.bias"])


@pytest.mark.parametrize("name", sorted(set(FILES) - {"generation_config.json", "tokenizer_config.json"}))
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    assert open_error(folder).startswith(f"{folder / name} is missing")


def test_a_shape_that_contradicts_the_config_is_named_with_both_shapes(folder):
    rewrite(folder / MODEL, lambda tensors: tensors.update({NORM: torch.ones(63)}))
    assert open_error(folder) == (f"{folder / MODEL}: the tensor {NORM} must have the shape [64], found [63]")


@pytest.mark.parametrize(
    ("file", "name", "shape"),
    [
        (MODEL, NORM, "[64]"),
        (MODEL, "talker.code_predictor.lm_head.14.weight", "[256, 64]"),
        (MODEL, "speaker_encoder.fc.weight", "[64, 192, 1]"),
        (CODEC, "decoder.decoder.6.conv.weight", "[1, 4, 7]"),
        (CODEC, "encoder.downsample.conv.weight", "[32, 32, 4]"),
    ],
)
def test_a_missing_tensor_is_named_with_its_shape(folder, file, name, shape):
    rewrite(folder / file, lambda tensors: tensors.pop(name))
    assert open_error(folder) == f"{folder / file}: the tensor {name} {shape} is missing"


def test_refuses_quantized_weights(folder):
    rewrite(folder / MODEL, lambda tensors: tensors.update({NORM: torch.ones(64, dtype=torch.int8)}))
    assert open_error(folder).endswith(f"{NORM} must have a dtype of bfloat16, float16, float32, found I8")


def test_refuses_more_layers_than_the_weights_have(folder):
    rewrite(folder / CONFIG, lambda config: config["talker_config"].update(num_hidden_layers=3))
    assert "the tensor talker.model.layers.3." in open_error(folder)


@pytest.mark.parametrize("name", ["talker.model.rotary_emb.inv_freq", "other.weight"])
def test_ignores_tensors_that_are_never_read(folder, name):
    rewrite(folder / MODEL, lambda tensors: tensors.update({name: torch.ones(4)}))
    assert name not in open_checkpoint(str(folder)).tensors("")


@pytest.mark.parametrize("file", [MODEL, CODEC])
def test_a_truncated_file_is_named(folder, file):
    with (folder / file).open("r+b") as opened:
        opened.truncate(100_000)
    assert open_error(folder).startswith(f"{folder / file} is not a valid safetensors file")


@pytest.mark.parametrize("pickle", ["pytorch_model.bin", "model.pt", "model.ckpt"])
def test_a_pickle_is_never_loaded(folder, pickle):
    (folder / MODEL).rename(folder / pickle)
    message = open_error(folder)
    assert f"{folder / MODEL} is missing" in message
    assert f"{pickle} is a pickle" in message
    assert "never loaded" in message


def test_refuses_a_pickle_with_a_safetensors_name(folder):
    torch.save({NORM: torch.ones(64)}, folder / MODEL)
    assert "is not a valid safetensors file" in open_error(folder)


def test_sharded_weights_must_be_merged(folder):
    (folder / MODEL).rename(folder / "model-00001-of-00002.safetensors")
    assert "merge the parts" in open_error(folder)


def test_a_missing_encoder_disables_only_its_own_task(folder):
    def remove_tensors(part):
        return lambda tensors: [tensors.pop(name) for name in list(tensors) if name.startswith(part)]

    rewrite(folder / MODEL, remove_tensors("speaker_encoder."))
    rewrite(folder / CODEC, remove_tensors("encoder."))
    checkpoint = open_checkpoint(str(folder))
    assert checkpoint.model.speaker_encoder is None
    assert checkpoint.codec.encoder is None
    assert checkpoint.tensors("speaker_encoder") == {}


def test_an_encoder_without_a_config_is_not_used(folder):
    rewrite(folder / CONFIG, lambda config: config.pop("speaker_encoder_config"))
    rewrite(folder / "speech_tokenizer/config.json", lambda config: config.pop("encoder_config"))
    checkpoint = open_checkpoint(str(folder))
    assert checkpoint.model.speaker_encoder is None
    assert checkpoint.codec.encoder is None


def test_refuses_a_codec_with_fewer_codes_than_the_talker(folder):
    codec = folder / "speech_tokenizer/config.json"
    rewrite(codec, lambda config: config["decoder_config"].update(codebook_size=128))
    assert "the codebooks of the talker must have" in open_error(folder)
