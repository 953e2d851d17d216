"""speech_tokenizer/config.json to ``CodecArchitecture``."""

from __future__ import annotations

from math import prod

from engine.architecture import CodecArchitecture, DecoderArchitecture, SpeechEncoderArchitecture
from engine.config_reader import TOKENIZER_12HZ, read_transformer
from engine.request import CODEBOOKS, SAMPLE_RATE, SAMPLES_PER_FRAME
from engine.strict_json import Keys


def read_codec(config: Keys) -> CodecArchitecture:
    """The codec's side of a checkpoint, as its config.json describes it.

    The encoder is given whenever the file describes one; whether its tensors are there is for the
    checkpoint to say. Raises CheckpointError naming file and key.
    """
    if config.text("model_type") != TOKENIZER_12HZ:
        raise config.wrong("model_type", f'"{TOKENIZER_12HZ}"', config.text("model_type"))
    config.expect("input_sample_rate", SAMPLE_RATE)
    config.expect("output_sample_rate", SAMPLE_RATE)
    config.expect("decode_upsample_rate", SAMPLES_PER_FRAME)
    config.expect("encode_downsample_rate", SAMPLES_PER_FRAME)
    return CodecArchitecture(
        decoder=_read_decoder(config.object("decoder_config")),
        encoder=_read_encoder(config) if config.has("encoder_config") else None,
    )


def _read_decoder(config: Keys) -> DecoderArchitecture:
    config.expect("hidden_act", "silu")
    config.expect("num_semantic_quantizers", 1)
    config.expect("num_key_value_heads", config.integer("num_attention_heads"))
    quantizers = config.integer("num_quantizers")
    if quantizers != CODEBOOKS:
        raise config.wrong("num_quantizers", str(CODEBOOKS), quantizers)
    rates, ratios = config.integers("upsample_rates"), config.integers("upsampling_ratios")
    if prod(rates) * prod(ratios) != SAMPLES_PER_FRAME:
        found = [*rates, *ratios]
        raise config.wrong(
            "upsample_rates", f"factors whose product with upsampling_ratios is {SAMPLES_PER_FRAME}", found
        )
    return DecoderArchitecture(
        transformer=read_transformer(config, "rms_norm_eps"),
        latent=config.integer("latent_dim"),
        codebook_dim=config.integer("codebook_dim"),
        codebook_size=config.integer("codebook_size"),
        quantizers=quantizers,
        decoder_dim=config.integer("decoder_dim"),
        sliding_window=config.integer("sliding_window"),
        upsample_rates=rates,
        upsampling_ratios=ratios,
    )


def _read_encoder(codec: Keys) -> SpeechEncoderArchitecture:
    config = codec.object("encoder_config")
    _expect_plain_mimi(config)
    quantizers = config.integer("num_quantizers")
    codebook_dim = config.integer("vector_quantization_hidden_dimension")
    config.expect("codebook_dim", codebook_dim)
    valid = codec.integer("encoder_valid_num_quantizers", below=quantizers + 1)
    if valid != CODEBOOKS:
        raise codec.wrong("encoder_valid_num_quantizers", str(CODEBOOKS), valid)
    return SpeechEncoderArchitecture(
        transformer=read_transformer(config, "norm_eps"),
        filters=config.integer("num_filters"),
        kernel=config.integer("kernel_size"),
        last_kernel=config.integer("last_kernel_size"),
        residual_kernel=config.integer("residual_kernel_size"),
        compress=config.integer("compress"),
        ratios=config.integers("upsampling_ratios"),
        codebook_dim=codebook_dim,
        codebook_size=config.integer("codebook_size"),
        quantizers=quantizers,
        semantic_quantizers=config.integer("num_semantic_quantizers", below=quantizers),
        valid_quantizers=valid,
    )


def _expect_plain_mimi(config: Keys) -> None:
    """SPEC 8: what the encoder implements, where the file could ask for something else."""
    config.expect("hidden_act", "gelu")
    config.expect("num_key_value_heads", config.integer("num_attention_heads"))
    config.expect("audio_channels", 1)
    config.expect("num_residual_layers", 1)
    config.expect("normalize", False)
    config.expect("pad_mode", "constant")
    config.expect("sampling_rate", SAMPLE_RATE)
    config.expect("use_causal_conv", True)
    config.expect("use_conv_shortcut", False)
