"""The configuration files of the checkpoint folder: the published layout (SPEC 1) with the pocket sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.checkpoint.architecture import CodecArchitecture, ModelArchitecture
from engine.checkpoint.config import read_codec, read_model
from scripts.train_pocket.config import Pocket, Transformer

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<tts_pad>",
    "<tts_text_bos>",
    "<tts_text_eod>",
)
"""They follow the BPE tokens in this order."""

_CODEC_IDS = {
    "codec_pad_id": 100,
    "codec_bos_id": 101,
    "codec_eos_token_id": 102,
    "codec_think_id": 106,
    "codec_nothink_id": 107,
    "codec_think_bos_id": 108,
    "codec_think_eos_id": 109,
}
"""The published ids minus the codebook size. The 1024 ids after the codes are special (SPEC 1.1, 6)."""
_ENGLISH = 2
_FIRST_SPEAKER = 200
_SPECIAL_IDS = 1024


def model_config(pocket: Pocket) -> dict[str, Any]:
    """Return the contents of config.json."""
    first = pocket.texts.vocabulary
    tokens = {token: first + index for index, token in enumerate(SPECIAL_TOKENS)}
    return {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "model_type": "qwen3_tts",
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_size": "pocket",
        "tts_model_type": "custom_voice",
        "im_start_token_id": tokens["<|im_start|>"],
        "im_end_token_id": tokens["<|im_end|>"],
        "tts_pad_token_id": tokens["<tts_pad>"],
        "tts_bos_token_id": tokens["<tts_text_bos>"],
        "tts_eos_token_id": tokens["<tts_text_eod>"],
        "talker_config": _talker(pocket),
        "speaker_encoder_config": _speaker_encoder(pocket),
    }


def codec_config(pocket: Pocket) -> dict[str, Any]:
    """Return the contents of speech_tokenizer/config.json."""
    return {
        "architectures": ["Qwen3TTSTokenizerV2Model"],
        "model_type": "qwen3_tts_tokenizer_12hz",
        "encoder_valid_num_quantizers": 16,
        "input_sample_rate": 24000,
        "output_sample_rate": 24000,
        "decode_upsample_rate": 1920,
        "encode_downsample_rate": 1920,
        "decoder_config": _codec_decoder(pocket),
        "encoder_config": _codec_encoder(pocket),
    }


def model_architecture(pocket: Pocket) -> ModelArchitecture:
    """Return the architecture in config.json, as read by the engine."""
    return read_model(model_config(pocket), Path("config.json"))


def codec_architecture(pocket: Pocket) -> CodecArchitecture:
    """Return the architecture in speech_tokenizer/config.json, as read by the engine."""
    return read_codec(codec_config(pocket), Path("speech_tokenizer/config.json"))


def _talker(pocket: Pocket) -> dict[str, Any]:
    size, hidden = pocket.codec.codebook_size, pocket.talker.model.hidden
    numbers = {name: size + _FIRST_SPEAKER + index for index, name in enumerate(pocket.voices.named)}
    first = pocket.voices.first
    speakers = {first: numbers[first], **numbers}
    text_vocab = pocket.texts.vocabulary + len(SPECIAL_TOKENS)
    return {
        "model_type": "qwen3_tts_talker",
        **_qwen3(pocket.talker.model, max_positions=32768),
        **{key: size + offset for key, offset in _CODEC_IDS.items()},
        "codec_language_id": {"english": size + _ENGLISH},
        "spk_id": speakers,
        "spk_is_dialect": dict.fromkeys(speakers, False),
        "num_code_groups": 16,
        "position_id_per_seconds": 13,
        "rope_scaling": _plain_rope(pocket.talker.model.head_dim),
        "text_hidden_size": pocket.talker.text_hidden,
        "text_vocab_size": text_vocab,
        "vocab_size": size + _SPECIAL_IDS,
        "code_predictor_config": _predictor(pocket, hidden),
    }


def _predictor(pocket: Pocket, talker_hidden: int) -> dict[str, Any]:
    sizes = pocket.talker.predictor
    if sizes.hidden == talker_hidden:
        raise ValueError(
            f"the hidden size of the predictor must differ from that of the talker, got {talker_hidden} for both"
        )
    return {
        "model_type": "qwen3_tts_talker_code_predictor",
        **_qwen3(sizes, max_positions=65536),
        "layer_types": ["full_attention"] * sizes.layers,
        "max_window_layers": 28,
        "num_code_groups": 16,
        "rope_scaling": None,
        "tie_word_embeddings": False,
        "vocab_size": pocket.codec.codebook_size,
    }


def _qwen3(sizes: Transformer, *, max_positions: int) -> dict[str, Any]:
    return {
        "attention_bias": False,
        "attention_dropout": 0,
        "head_dim": sizes.head_dim,
        "hidden_act": "silu",
        "hidden_size": sizes.hidden,
        "initializer_range": 0.02,
        "intermediate_size": sizes.intermediate,
        "max_position_embeddings": max_positions,
        "num_attention_heads": sizes.heads,
        "num_hidden_layers": sizes.layers,
        "num_key_value_heads": sizes.kv_heads,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000,
        "sliding_window": None,
        "use_cache": True,
        "use_sliding_window": False,
    }


def _plain_rope(head_dim: int) -> dict[str, Any]:
    """Return a rope_scaling of three sections. All have the same rotation (SPEC 2) and together fill half a head."""
    third = head_dim // 6
    sections = [head_dim // 2 - 2 * third, third, third]
    return {"interleaved": True, "mrope_section": sections, "rope_type": "default", "type": "default"}


def _speaker_encoder(pocket: Pocket) -> dict[str, Any]:
    sizes = pocket.speaker_encoder
    return {
        "mel_dim": 128,
        "enc_dim": pocket.talker.model.hidden,
        "enc_channels": sizes.channels,
        "enc_kernel_sizes": [5, 3, 3, 3, 1],
        "enc_dilations": [1, 2, 3, 4, 1],
        "enc_attention_channels": sizes.attention,
        "enc_res2net_scale": 8,
        "enc_se_channels": sizes.squeeze,
        "sample_rate": 24000,
    }


def _codec_decoder(pocket: Pocket) -> dict[str, Any]:
    sizes, heads = pocket.codec.decoder, pocket.codec.decoder.hidden // pocket.codec.decoder.head_dim
    return {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "latent_dim": sizes.latent,
        "codebook_dim": 2 * pocket.codec.codebook_dim,
        "codebook_size": pocket.codec.codebook_size,
        "decoder_dim": sizes.width,
        "hidden_act": "silu",
        "hidden_size": sizes.hidden,
        "intermediate_size": sizes.intermediate,
        "layer_scale_initial_scale": 0.01,
        "max_position_embeddings": 8000,
        "head_dim": sizes.head_dim,
        "num_attention_heads": heads,
        "num_hidden_layers": sizes.layers,
        "num_key_value_heads": heads,
        "num_quantizers": 16,
        "num_semantic_quantizers": 1,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000,
        "semantic_codebook_size": pocket.codec.codebook_size,
        "sliding_window": sizes.window,
        "upsample_rates": [8, 5, 4, 3],
        "upsampling_ratios": [2, 2],
        "vector_quantization_hidden_dimension": 2 * pocket.codec.codebook_dim,
    }


def _codec_encoder(pocket: Pocket) -> dict[str, Any]:
    sizes, heads = pocket.codec.encoder, pocket.codec.encoder.hidden // pocket.codec.encoder.head_dim
    return {
        "_frame_rate": 12.5,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "audio_channels": 1,
        "codebook_dim": pocket.codec.codebook_dim,
        "codebook_size": pocket.codec.codebook_size,
        "compress": 2,
        "dilation_growth_rate": 2,
        "head_dim": sizes.head_dim,
        "hidden_act": "gelu",
        "hidden_size": sizes.hidden,
        "initializer_range": 0.02,
        "intermediate_size": sizes.intermediate,
        "kernel_size": 7,
        "last_kernel_size": 3,
        "layer_scale_initial_scale": 0.01,
        "max_position_embeddings": 8000,
        "norm_eps": 1e-5,
        "normalize": False,
        "num_attention_heads": heads,
        "num_filters": sizes.filters,
        "num_hidden_layers": sizes.layers,
        "num_key_value_heads": heads,
        "num_quantizers": 16,
        "num_residual_layers": 1,
        "num_semantic_quantizers": 1,
        "pad_mode": "constant",
        "residual_kernel_size": 3,
        "rope_theta": 10000.0,
        "sampling_rate": 24000,
        "sliding_window": 250,
        "trim_right_ratio": 1.0,
        "upsample_groups": sizes.hidden,
        "upsampling_ratios": [8, 6, 5, 4],
        "use_cache": False,
        "use_causal_conv": True,
        "use_conv_shortcut": False,
        "use_streaming": False,
        "vector_quantization_hidden_dimension": pocket.codec.codebook_dim,
    }
