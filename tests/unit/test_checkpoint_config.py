"""Config files: every required key in turn missing or invalid."""

import json
import shutil
from copy import deepcopy
from pathlib import Path

import pytest

from engine.checkpoint.config import GenerationDefaults, read_codec, read_model
from engine.checkpoint.folder import open_checkpoint
from engine.errors import CheckpointError
from tests.unit import published
from tests.unit.corrupt_checkpoint import open_error, rewrite

CONFIG, CODEC_CONFIG = "config.json", "speech_tokenizer/config.json"


@pytest.fixture
def folder(checkpoints, tmp_path) -> Path:
    return shutil.copytree(checkpoints["pocket"], tmp_path / "checkpoint")


CONFIGS = {CONFIG: published.model_config("1b7-base"), CODEC_CONFIG: published.CODEC}
READERS = {CONFIG: read_model, CODEC_CONFIG: read_codec}
NAME_TABLES = ("codec_language_id", "spk_id", "spk_is_dialect", "rope_scaling")
OPTIONAL_KEYS = {
    CONFIG: {
        "model_type",
        "speaker_encoder_config",
        "talker_config.attention_bias",
        "talker_config.hidden_act",
        "talker_config.rope_scaling",
        "talker_config.sliding_window",
        "talker_config.use_sliding_window",
        "talker_config.code_predictor_config.attention_bias",
        "talker_config.code_predictor_config.hidden_act",
        "talker_config.code_predictor_config.num_code_groups",
        "talker_config.code_predictor_config.rope_scaling",
        "talker_config.code_predictor_config.sliding_window",
        "talker_config.code_predictor_config.use_sliding_window",
    },
    CODEC_CONFIG: {
        "decode_upsample_rate",
        "encode_downsample_rate",
        "input_sample_rate",
        "output_sample_rate",
        "decoder_config.attention_bias",
        "decoder_config.hidden_act",
        "decoder_config.num_semantic_quantizers",
        "decoder_config.semantic_codebook_size",
        "decoder_config.vector_quantization_hidden_dimension",
        "encoder_config",
        "encoder_config.attention_bias",
        "encoder_config.audio_channels",
        "encoder_config.codebook_dim",
        "encoder_config.hidden_act",
        "encoder_config.normalize",
        "encoder_config.num_residual_layers",
        "encoder_config.pad_mode",
        "encoder_config.sampling_rate",
        "encoder_config.sliding_window",
        "encoder_config.use_causal_conv",
        "encoder_config.use_conv_shortcut",
    },
}
"""Published keys that a checkpoint may omit, because the engine does not use them or supports one value only."""


def key_paths(values: dict, prefix: str = "") -> list[str]:
    """The dotted path of every key."""
    paths = []
    for key, value in values.items():
        paths.append(prefix + key)
        if isinstance(value, dict) and key not in NAME_TABLES:
            paths += key_paths(value, f"{prefix}{key}.")
    return paths


def parent_of(values: dict, path: str) -> tuple[dict, str]:
    """The object that contains the last key of a dotted path, and that key."""
    *outer, key = path.split(".")
    for name in outer:
        values = values[name]
    return values, key


PATHS = [(file, path) for file, config in CONFIGS.items() for path in key_paths(config)]
REQUIRED_KEYS = [(file, path) for file, path in PATHS if path not in OPTIONAL_KEYS[file]]


@pytest.mark.parametrize(("file", "path"), REQUIRED_KEYS)
def test_a_missing_key_is_named_and_has_no_default(file, path):
    config = deepcopy(CONFIGS[file])
    values, key = parent_of(config, path)
    del values[key]
    with pytest.raises(CheckpointError) as caught:
        READERS[file](config, Path(file))
    assert caught.value.message == f"{file}: the key {path} is missing"


@pytest.mark.parametrize("file", CONFIGS)
def test_optional_keys_may_be_missing(file):
    config = deepcopy(CONFIGS[file])
    for path in sorted(OPTIONAL_KEYS[file], reverse=True):
        values, key = parent_of(config, path)
        del values[key]
    READERS[file](config, Path(file))


@pytest.mark.parametrize(("file", "path"), REQUIRED_KEYS)
def test_a_key_with_a_wrong_type_is_named(file, path):
    config = deepcopy(CONFIGS[file])
    values, key = parent_of(config, path)
    values[key] = True
    with pytest.raises(CheckpointError) as caught:
        READERS[file](config, Path(file))
    assert caught.value.message.startswith(f"{file}: {path} must be ")


INVALID_VALUES = {
    "a string for a number": (CONFIG, "talker_config.hidden_size", "64", "an integer"),
    "null for a number": (CONFIG, "talker_config.hidden_size", None, "an integer"),
    "a fraction for a count": (CONFIG, "talker_config.hidden_size", 64.5, "an integer"),
    "zero layers": (CONFIG, "talker_config.num_hidden_layers", 0, "at least 1"),
    "kv heads": (CONFIG, "talker_config.num_key_value_heads", 3, "a divisor of 4"),
    "odd heads": (CONFIG, "talker_config.head_dim", 31, "a multiple of 2"),
    "id beyond the codec embedding": (CONFIG, "talker_config.codec_bos_id", 1280, "in 0..1279"),
    "id beyond the text embedding": (CONFIG, "tts_bos_token_id", 99999, "in 0..703"),
    "speaker beyond the codec embedding": (CONFIG, "talker_config.spk_id.ryan", 1280, "in 0..1279"),
    "two ids for one speaker": (CONFIG, "talker_config.spk_id.ryan", [1, 2], "an integer"),
    "unknown dialect": (CONFIG, "talker_config.spk_is_dialect.eric", "klingon", "codec_language_id"),
    "unknown kind": (CONFIG, "tts_model_type", "singer", '"base", "custom_voice" or "voice_design"'),
    "other number of codebooks": (CONFIG, "talker_config.num_code_groups", 32, "16"),
    "embedding of another width": (CONFIG, "speaker_encoder_config.enc_dim", 128, "64"),
    "biases": (CONFIG, "talker_config.attention_bias", True, "false"),
    "sliding window": (CONFIG, "talker_config.sliding_window", 512, "null"),
    "activation": (CODEC_CONFIG, "decoder_config.hidden_act", "gelu", "silu"),
    "frame of another length": (CODEC_CONFIG, "decoder_config.upsample_rates", [8, 5, 4, 2], "1920"),
    "not a list": (CODEC_CONFIG, "decoder_config.upsample_rates", 480, "a list"),
    "sample rate": (CODEC_CONFIG, "output_sample_rate", 48000, "24000"),
    "encoder with more residual layers": (CODEC_CONFIG, "encoder_config.num_residual_layers", 2, "1"),
}


@pytest.mark.parametrize(("file", "path", "value", "wanted"), INVALID_VALUES.values(), ids=INVALID_VALUES)
def test_an_invalid_value_is_named_with_what_is_allowed(folder, file, path, value, wanted):
    def change(config):
        values, key = parent_of(config, path)
        values[key] = value

    rewrite(folder / file, change)
    message = open_error(folder)
    assert message.startswith(f"{folder / file}: {path} must be ")
    assert wanted in message
    assert message.endswith(f"found {json.dumps(value)}") or "upsampl" in path


@pytest.mark.parametrize(
    ("file", "key"), [(CONFIG, "tokenizer_type"), (CODEC_CONFIG, "model_type")], ids=["model", "codec"]
)
def test_refuses_the_25_hz_family(folder, file, key):
    rewrite(folder / file, lambda config: config.update({key: "qwen3_tts_tokenizer_25hz"}))
    message = open_error(folder)
    assert "qwen3_tts_tokenizer_25hz" in message
    assert "qwen3_tts_tokenizer_12hz" in message


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00"])
@pytest.mark.parametrize("file", [CONFIG, CODEC_CONFIG, "generation_config.json", "tokenizer_config.json"])
def test_a_file_that_is_not_a_json_object_is_named(folder, file, text):
    (folder / file).write_text(text)
    assert open_error(folder).startswith(str(folder / file))


def test_a_speaker_id_may_be_a_list_with_one_id(folder):
    rewrite(folder / CONFIG, lambda config: config["talker_config"]["spk_id"].update(ryan=[77]))
    assert open_checkpoint(str(folder)).model.talker.speakers["ryan"] == 77


def test_a_short_speaker_encoder_config_has_the_published_defaults(folder):
    def shorten(config):
        config["speaker_encoder_config"] = {"enc_dim": 64, "sample_rate": 24000}

    rewrite(folder / CONFIG, shorten)
    assert "speaker_encoder.blocks.0.conv.weight must have the shape [512, 128, 5]" in open_error(folder)


@pytest.mark.parametrize("name", ["im_start", "im_end", "tts_pad", "tts_bos", "tts_eos"])
def test_refuses_a_special_token_id_that_the_tokenizer_contradicts(folder, name):
    rewrite(folder / CONFIG, lambda config: config.update({f"{name}_token_id": 672}))
    assert open_error(folder).startswith(
        f"{folder / 'tokenizer_config.json'}: config.json gives {name}_token_id as 672"
    )


def test_refuses_a_special_token_that_is_an_ordinary_token(folder):
    (folder / "tokenizer_config.json").unlink()
    rewrite(folder / CONFIG, lambda config: config.update(tts_eos_token_id=5))
    assert "which is the ordinary token" in open_error(folder)


def test_refuses_a_vocabulary_larger_than_the_text_embedding(folder):
    rewrite(folder / "vocab.json", lambda vocab: vocab.update(beyond=704))
    assert open_error(folder).endswith("less than the text_vocab_size of config.json, 704, found 704")


def test_tokenizer_config_may_be_missing(folder):
    (folder / "tokenizer_config.json").unlink()
    assert open_checkpoint(str(folder)).tokenizer.encode("Hello")


def test_sampling_defaults_are_read_from_the_file(folder):
    values = {"temperature": 0.5, "top_k": 0, "do_sample": False, "subtalker_top_p": 0.8}
    (folder / "generation_config.json").write_text(json.dumps(values))
    assert open_checkpoint(str(folder)).generation == GenerationDefaults(
        temperature=0.5, top_k=0, do_sample=False, subtalker_top_p=0.8
    )


def test_without_the_file_the_sampling_defaults_are_those_of_the_model_family(folder):
    (folder / "generation_config.json").unlink()
    assert open_checkpoint(str(folder)).generation == GenerationDefaults()


@pytest.mark.parametrize(
    ("key", "value"),
    [("temperature", 0), ("temperature", "hot"), ("top_k", -1), ("top_p", 1.5), ("do_sample", 1)],
)
def test_a_sampling_value_out_of_range_is_named(folder, key, value):
    rewrite(folder / "generation_config.json", lambda config: config.update({key: value}))
    assert open_error(folder).startswith(f"{folder / 'generation_config.json'}: {key} must be ")
