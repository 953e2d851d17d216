"""A random checkpoint of the published 0.6B model's size: every shape as published, the small one's tokenizer.

It is good for timing and for nothing else. About 2.5 GB.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from engine.codec_config_reader import read_codec
from engine.config_reader import read_model
from engine.layout import codec_shapes, model_shapes
from engine.strict_json import Keys
from engine.untrained.codec_configs import CODEC, FEATURE_EXTRACTOR, MODELSCOPE
from engine.untrained.configs import CODEBOOK, GENERATION, PROCESSOR, model_config
from engine.untrained.files import write_json
from engine.untrained.tokenizer import write_tokenizer
from engine.untrained.weights import write_weights

_CODEBOOK = 2048
_ATTENTION = {"num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128}
_PREDICTOR = _ATTENTION | {
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 5,
    "layer_types": ["full_attention"] * 5,
    "vocab_size": _CODEBOOK,
}
_TALKER = _ATTENTION | {
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "vocab_size": _CODEBOOK + 1024,
    "text_hidden_size": 2048,
    "text_vocab_size": 151936,
}
_MROPE_SECTION = [24, 20, 20]
_CODEC_DECODER = {
    "codebook_dim": 512,
    "codebook_size": _CODEBOOK,
    "decoder_dim": 1536,
    "head_dim": 64,
    "hidden_size": 512,
    "intermediate_size": 1024,
    "latent_dim": 1024,
    "num_attention_heads": 16,
    "num_hidden_layers": 8,
    "num_key_value_heads": 16,
    "semantic_codebook_size": 2 * _CODEBOOK,
    "sliding_window": 72,
    "vector_quantization_hidden_dimension": 512,
}
_CODEC_ENCODER = {
    "codebook_dim": 256,
    "codebook_size": _CODEBOOK,
    "head_dim": 64,
    "hidden_size": 512,
    "intermediate_size": 2048,
    "num_attention_heads": 8,
    "num_filters": 64,
    "num_hidden_layers": 8,
    "num_key_value_heads": 8,
    "upsample_groups": 512,
    "vector_quantization_hidden_dimension": 256,
}
_LAST_CONV = "decoder.decoder.6.conv.weight"


def full_size_model(tokens: dict[str, int]) -> dict[str, Any]:
    """config.json of the published 0.6B CustomVoice model, with a tokenizer of ``tokens``."""
    config = model_config("0b6", "custom_voice", clones=False, marked=True, tokens=tokens)
    talker = _with_published_ids(config["talker_config"]) | _TALKER
    talker["rope_scaling"] |= {"mrope_section": _MROPE_SECTION}
    talker["code_predictor_config"] |= _PREDICTOR
    return config | {"talker_config": talker}


def full_size_codec() -> dict[str, Any]:
    """speech_tokenizer/config.json as published."""
    return CODEC | {
        "decoder_config": CODEC["decoder_config"] | _CODEC_DECODER,
        "encoder_config": CODEC["encoder_config"] | _CODEC_ENCODER,
    }


def write_full_size(folder: Path) -> None:
    """Write the checkpoint, config.json last."""
    (folder / "speech_tokenizer").mkdir(parents=True, exist_ok=True)
    _write_codec(folder / "speech_tokenizer")
    config = full_size_model(write_tokenizer(folder))
    shapes = model_shapes(read_model(Keys(config, folder / "config.json")))
    write_weights(folder / "model.safetensors", shapes, "full-size", torch.bfloat16)
    write_json(folder / "generation_config.json", GENERATION)
    write_json(folder / "preprocessor_config.json", PROCESSOR)
    write_json(folder / "config.json", config)


def _write_codec(folder: Path) -> None:
    config = full_size_codec()
    shapes = codec_shapes(read_codec(Keys(config, folder / "config.json")))
    write_weights(folder / "model.safetensors", shapes, "full-size codec", torch.float32, last_conv=_LAST_CONV)
    write_json(folder / "config.json", config)
    write_json(folder / "configuration.json", MODELSCOPE)
    write_json(folder / "preprocessor_config.json", FEATURE_EXTRACTOR)


def _with_published_ids(talker: dict[str, Any]) -> dict[str, Any]:
    """The small configuration's ids follow its small codebook; here they follow the published one."""

    def shifted(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: shifted(each) for name, each in value.items()}
        return value + _CODEBOOK - CODEBOOK

    return {
        key: shifted(value) if key.startswith("codec_") or key == "spk_id" else value for key, value in talker.items()
    }
