"""The configurations of the published checkpoints, and the names and shapes of all their tensors."""

import json
import lzma
from pathlib import Path
from typing import Any

MODELS = ("0b6-base", "0b6-custom_voice", "1b7-base", "1b7-custom_voice", "1b7-voice_design")

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
_CODE_PREDICTOR = {
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 5,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000,
    "rope_scaling": None,
    "attention_bias": False,
    "use_sliding_window": False,
    "sliding_window": None,
    "num_code_groups": 16,
    "vocab_size": 2048,
}
CODEC: dict[str, Any] = {
    "model_type": "qwen3_tts_tokenizer_12hz",
    "encoder_valid_num_quantizers": 16,
    "input_sample_rate": 24000,
    "output_sample_rate": 24000,
    "decode_upsample_rate": 1920,
    "encode_downsample_rate": 1920,
    "decoder_config": {
        "attention_bias": False,
        "latent_dim": 1024,
        "codebook_dim": 512,
        "codebook_size": 2048,
        "decoder_dim": 1536,
        "hidden_act": "silu",
        "hidden_size": 512,
        "intermediate_size": 1024,
        "head_dim": 64,
        "num_attention_heads": 16,
        "num_hidden_layers": 8,
        "num_key_value_heads": 16,
        "num_quantizers": 16,
        "num_semantic_quantizers": 1,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000,
        "semantic_codebook_size": 4096,
        "sliding_window": 72,
        "upsample_rates": [8, 5, 4, 3],
        "upsampling_ratios": [2, 2],
        "vector_quantization_hidden_dimension": 512,
    },
    "encoder_config": {
        "attention_bias": False,
        "audio_channels": 1,
        "codebook_dim": 256,
        "codebook_size": 2048,
        "compress": 2,
        "head_dim": 64,
        "hidden_act": "gelu",
        "hidden_size": 512,
        "intermediate_size": 2048,
        "kernel_size": 7,
        "last_kernel_size": 3,
        "norm_eps": 1e-5,
        "normalize": False,
        "num_attention_heads": 8,
        "num_filters": 64,
        "num_hidden_layers": 8,
        "num_key_value_heads": 8,
        "num_quantizers": 32,
        "num_residual_layers": 1,
        "num_semantic_quantizers": 1,
        "pad_mode": "constant",
        "residual_kernel_size": 3,
        "rope_theta": 10000.0,
        "sampling_rate": 24000,
        "sliding_window": 250,
        "upsampling_ratios": [8, 6, 5, 4],
        "use_causal_conv": True,
        "use_conv_shortcut": False,
        "vector_quantization_hidden_dimension": 256,
    },
}


def model_config(name: str) -> dict[str, Any]:
    """config.json of one of ``MODELS``."""
    size, kind = name.split("-")
    config: dict[str, Any] = {
        "model_type": "qwen3_tts",
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_size": size,
        "tts_model_type": kind,
        "im_start_token_id": 151644,
        "im_end_token_id": 151645,
        "tts_pad_token_id": 151671,
        "tts_bos_token_id": 151672,
        "tts_eos_token_id": 151673,
        "talker_config": _talker_config(size, kind == "custom_voice"),
    }
    if kind == "base":
        config["speaker_encoder_config"] = {"enc_dim": 2048 if size == "1b7" else 1024, "sample_rate": 24000}
    return config


def shapes() -> dict[str, dict[str, tuple[int, ...]]]:
    """Names and shapes of all tensors, by file: one of ``MODELS`` or "speech_tokenizer"."""
    packed = (Path(__file__).parent / "published_shapes.json.xz").read_bytes()
    files = json.loads(lzma.decompress(packed))
    return {file: {name: tuple(shape) for name, shape in listing.items()} for file, listing in files.items()}


def _talker_config(size: str, speaks_by_name: bool) -> dict[str, Any]:
    return {
        "code_predictor_config": _CODE_PREDICTOR,
        "vocab_size": 3072,
        "hidden_size": 2048 if size == "1b7" else 1024,
        "intermediate_size": 6144 if size == "1b7" else 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000,
        "rope_scaling": {
            "interleaved": True,
            "mrope_section": [24, 20, 20],
            "rope_type": "default",
            "type": "default",
        },
        "attention_bias": False,
        "use_sliding_window": False,
        "sliding_window": None,
        "num_code_groups": 16,
        "text_hidden_size": 2048,
        "text_vocab_size": 151936,
        "codec_pad_id": 2148,
        "codec_bos_id": 2149,
        "codec_eos_token_id": 2150,
        "codec_think_id": 2154,
        "codec_nothink_id": 2155,
        "codec_think_bos_id": 2156,
        "codec_think_eos_id": 2157,
        "codec_language_id": _LANGUAGES | (_DIALECTS if speaks_by_name else {}),
        "spk_id": _SPEAKERS if speaks_by_name else {},
        "spk_is_dialect": {s: _SPEAKER_DIALECTS.get(s, False) for s in _SPEAKERS} if speaks_by_name else {},
    }
