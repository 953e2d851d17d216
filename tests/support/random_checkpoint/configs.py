"""The published configurations with small sizes. They have every key; ids keep their published order."""

from __future__ import annotations

from typing import Any

CODEBOOK = 256
"""Codebook size; 2048 in published models. Codec-side special ids are the published ones minus the difference."""

_SHIFT = 2048 - CODEBOOK
_TALKER_VOCAB = CODEBOOK + 1024
_HEAD_DIM = 32
_TEXT_HIDDEN = 48
_TEXT_VOCAB_MULTIPLE = 64

_LANGUAGES = {
    "chinese": 2055,
    "english": 2050,
    "german": 2053,
    "italian": 2070,
    "portuguese": 2071,
    "spanish": 2054,
    "japanese": 2058,
    "korean": 2064,
    "french": 2061,
    "russian": 2069,
}
_DIALECTS = {"beijing_dialect": 2074, "sichuan_dialect": 2062}
_SPEAKERS = {
    "serena": 3066,
    "vivian": 3065,
    "uncle_fu": 3010,
    "ryan": 3061,
    "aiden": 2861,
    "ono_anna": 2873,
    "sohee": 2864,
    "eric": 2875,
    "dylan": 2878,
}
_SPEAKER_DIALECTS = {"eric": "sichuan_dialect", "dylan": "beijing_dialect"}


def model_config(size: str, kind: str, *, clones: bool, marked: bool, tokens: dict[str, int]) -> dict[str, Any]:
    """Return config.json.

    size: "pocket", "0b6" or "1b7". clones: include a speaker encoder. marked: add ``"untrained": true``.
    """
    hidden = 128 if size == "1b7" else 64
    config: dict[str, Any] = {"untrained": True} if marked else {}
    config |= {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "assistant_token_id": tokens["assistant"],
        "im_end_token_id": tokens["<|im_end|>"],
        "im_start_token_id": tokens["<|im_start|>"],
        "tts_bos_token_id": tokens["<tts_text_bos>"],
        "tts_eos_token_id": tokens["<tts_text_eod>"],
        "tts_pad_token_id": tokens["<tts_pad>"],
        "model_type": "qwen3_tts",
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_size": size,
        "tts_model_type": kind,
        "talker_config": _talker(hidden, kind == "custom_voice", len(tokens)),
    }
    if clones:
        config["speaker_encoder_config"] = _speaker_encoder(hidden)
    return config


def _talker(hidden: int, speaks_by_name: bool, tokens: int) -> dict[str, Any]:
    return {
        "model_type": "qwen3_tts_talker",
        "attention_bias": False,
        "attention_dropout": 0,
        "code_predictor_config": _code_predictor(),
        "codec_bos_id": 2149 - _SHIFT,
        "codec_eos_token_id": 2150 - _SHIFT,
        "codec_think_id": 2154 - _SHIFT,
        "codec_language_id": _shifted(_LANGUAGES | (_DIALECTS if speaks_by_name else {})),
        "codec_nothink_id": 2155 - _SHIFT,
        "codec_pad_id": 2148 - _SHIFT,
        "codec_think_bos_id": 2156 - _SHIFT,
        "codec_think_eos_id": 2157 - _SHIFT,
        "spk_id": _shifted(_SPEAKERS) if speaks_by_name else {},
        "spk_is_dialect": {s: _SPEAKER_DIALECTS.get(s, False) for s in _SPEAKERS} if speaks_by_name else {},
        "head_dim": _HEAD_DIM,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "initializer_range": 0.02,
        "intermediate_size": 3 * hidden,
        "max_position_embeddings": 32768,
        "num_attention_heads": 4,
        "num_code_groups": 16,
        "num_hidden_layers": 4,
        "num_key_value_heads": 2,
        "position_id_per_seconds": 13,
        "rms_norm_eps": 1e-6,
        "rope_scaling": {
            "interleaved": True,
            "mrope_section": [6, 5, 5],
            "rope_type": "default",
            "type": "default",
        },
        "rope_theta": 1000000,
        "sliding_window": None,
        "text_hidden_size": _TEXT_HIDDEN,
        "text_vocab_size": -(-tokens // _TEXT_VOCAB_MULTIPLE) * _TEXT_VOCAB_MULTIPLE,
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": _TALKER_VOCAB,
    }


def _code_predictor() -> dict[str, Any]:
    return {
        "model_type": "qwen3_tts_talker_code_predictor",
        "attention_bias": False,
        "attention_dropout": 0,
        "head_dim": _HEAD_DIM,
        "hidden_act": "silu",
        "hidden_size": 64,
        "initializer_range": 0.02,
        "intermediate_size": 160,
        "layer_types": ["full_attention"] * 2,
        "max_length": 20,
        "max_position_embeddings": 65536,
        "max_window_layers": 28,
        "num_attention_heads": 4,
        "num_code_groups": 16,
        "num_hidden_layers": 2,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-6,
        "rope_scaling": None,
        "rope_theta": 1000000,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": CODEBOOK,
    }


def _speaker_encoder(width: int) -> dict[str, Any]:
    return {
        "mel_dim": 128,
        "enc_dim": width,
        "enc_channels": [32, 32, 32, 32, 96],
        "enc_kernel_sizes": [5, 3, 3, 3, 1],
        "enc_dilations": [1, 2, 3, 4, 1],
        "enc_attention_channels": 16,
        "enc_res2net_scale": 8,
        "enc_se_channels": 16,
        "sample_rate": 24000,
    }


def _shifted(ids: dict[str, int]) -> dict[str, int]:
    return {name: published - _SHIFT for name, published in ids.items()}


BRIEF = {"max_new_tokens": 126}
"""Limits audio to ten seconds, because random weights rarely sample the end of speech."""
GENERATION = {
    "do_sample": True,
    "repetition_penalty": 1.05,
    "temperature": 0.9,
    "top_p": 1.0,
    "top_k": 50,
    "subtalker_dosample": True,
    "subtalker_temperature": 0.9,
    "subtalker_top_p": 1.0,
    "subtalker_top_k": 50,
    "max_new_tokens": 8192,
}
PROCESSOR = {
    "padding_side": "left",
    "padding_value": 0.0,
    "processor_class": "Qwen3TTSProcessor",
    "return_attention_mask": True,
}
