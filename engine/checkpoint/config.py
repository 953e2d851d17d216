"""Reads config.json, speech_tokenizer/config.json and generation_config.json of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path

from engine.checkpoint.architecture import (
    CodecArchitecture,
    CodecIds,
    CodePredictorArchitecture,
    DecoderArchitecture,
    ModelArchitecture,
    SpeakerEncoderArchitecture,
    SpeechEncoderArchitecture,
    TalkerArchitecture,
    TextIds,
    Transformer,
)
from engine.checkpoint.checksums import Checksums
from engine.checkpoint.strict_json import Keys, is_integer, read_json
from engine.errors import CheckpointError
from engine.protocol.request import CODEBOOKS, SAMPLE_RATE, SAMPLES_PER_FRAME


@dataclass(frozen=True, slots=True)
class GenerationDefaults:
    """Default sampling parameters of a request. The values here apply if the checkpoint sets none.

    do_sample, subtalker_dosample: False selects greedy decoding, of codebook 0 and of codebooks 1..15.
    top_k: 0 means no limit. top_p: 1 means no limit. max_new_tokens: N allows at most N - 1 frames.
    """

    do_sample: bool = True
    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0
    repetition_penalty: float = 1.05
    subtalker_dosample: bool = True
    subtalker_temperature: float = 0.9
    subtalker_top_k: int = 50
    subtalker_top_p: float = 1.0
    max_new_tokens: int = 2048


def read_generation_defaults(folder: Path, checksums: Checksums) -> GenerationDefaults:
    """Read generation_config.json, if there is one. Raises CheckpointError for a wrong type or a value out of range."""
    file = folder / "generation_config.json"
    if not file.exists() and not checksums.lists(file):
        return GenerationDefaults()
    config = read_json(file, checksums)
    given: dict[str, bool | int | float] = {}
    for key in ("do_sample", "subtalker_dosample"):
        if config.has(key):
            given[key] = config.flag(key)
    for key in ("temperature", "subtalker_temperature", "repetition_penalty"):
        if config.has(key):
            given[key] = config.number(key)
    for key in ("top_p", "subtalker_top_p"):
        if config.has(key):
            given[key] = _probability(config, key)
    for key, minimum in (("top_k", 0), ("subtalker_top_k", 0), ("max_new_tokens", 1)):
        if config.has(key):
            given[key] = config.integer(key, minimum=minimum)
    return GenerationDefaults(**given)  # type: ignore[arg-type]


def _probability(config: Keys, key: str) -> float:
    value = config.number(key)
    if value > 1:
        raise config.wrong(key, "at most 1", value)
    return value


def read_codec(config: Keys) -> CodecArchitecture:
    """Read the codec part of a checkpoint from its config.json.

    The result has an encoder if the file describes one. The caller checks whether its tensors exist.
    Raises CheckpointError with the file and the key.
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
    """Raise CheckpointError if the file asks for a variant that our encoder does not implement (SPEC 8)."""
    config.expect("hidden_act", "gelu")
    config.expect("num_key_value_heads", config.integer("num_attention_heads"))
    config.expect("audio_channels", 1)
    config.expect("num_residual_layers", 1)
    config.expect("normalize", False)
    config.expect("pad_mode", "constant")
    config.expect("sampling_rate", SAMPLE_RATE)
    config.expect("use_causal_conv", True)
    config.expect("use_conv_shortcut", False)


TOKENIZER_12HZ = "qwen3_tts_tokenizer_12hz"
KINDS = ("base", "custom_voice", "voice_design")

_ECAPA_BLOCKS = 5
_ECAPA = {
    "mel_dim": 128,
    "enc_channels": [512, 512, 512, 512, 1536],
    "enc_kernel_sizes": [5, 3, 3, 3, 1],
    "enc_dilations": [1, 2, 3, 4, 1],
    "enc_attention_channels": 128,
    "enc_res2net_scale": 8,
    "enc_se_channels": 128,
}
"""Defaults of the speaker encoder (SPEC 7). The published files only give the x-vector's width and the sample rate."""


def read_model(config: Keys) -> ModelArchitecture:
    """Read the talker part of a checkpoint from its config.json.

    The result has a speaker encoder if the file describes one. The caller checks whether its tensors exist.
    Raises CheckpointError with the file and the key.
    """
    if config.text("tokenizer_type") != TOKENIZER_12HZ:
        raise CheckpointError(
            f"{config.file}: tokenizer_type is {config.text('tokenizer_type')!r}; "
            f"only the 12 Hz family ({TOKENIZER_12HZ!r}) is supported"
        )
    kind = config.text("tts_model_type")
    if kind not in KINDS:
        raise config.wrong("tts_model_type", "one of " + ", ".join(KINDS), kind)
    talker = _read_talker(config.object("talker_config"))
    return ModelArchitecture(
        size=config.text("tts_model_size"),
        kind=kind,
        talker=talker,
        text_ids=_read_text_ids(config, talker.text_vocab),
        speaker_encoder=_read_speaker_encoder(config, talker.transformer.hidden),
        trained=not (config.has("untrained") and config.flag("untrained")),
    )


def read_transformer(config: Keys, eps_key: str) -> Transformer:
    """Read the keys that all transformers of a checkpoint share."""
    config.expect("attention_bias", False)
    heads, head_dim = config.integer("num_attention_heads"), config.integer("head_dim")
    kv_heads = config.integer("num_key_value_heads")
    if heads % kv_heads:
        raise config.wrong("num_key_value_heads", f"a divisor of {heads} (num_attention_heads)", kv_heads)
    if head_dim % 2:
        raise config.wrong("head_dim", "even", head_dim)
    return Transformer(
        hidden=config.integer("hidden_size"),
        intermediate=config.integer("intermediate_size"),
        layers=config.integer("num_hidden_layers"),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        rope_theta=config.number("rope_theta"),
        eps=config.number(eps_key),
    )


def _read_talker(config: Keys) -> TalkerArchitecture:
    _expect_plain_qwen3(config)
    vocab = config.integer("vocab_size")
    codebooks = config.integer("num_code_groups")
    if codebooks != CODEBOOKS:
        raise config.wrong("num_code_groups", str(CODEBOOKS), codebooks)
    languages = _read_ids(config.object("codec_language_id"), vocab)
    speakers = _read_ids(config.object("spk_id"), vocab)
    return TalkerArchitecture(
        transformer=read_transformer(config, "rms_norm_eps"),
        vocab=vocab,
        text_vocab=config.integer("text_vocab_size"),
        text_hidden=config.integer("text_hidden_size"),
        codebooks=codebooks,
        predictor=_read_predictor(config.object("code_predictor_config")),
        ids=CodecIds(
            pad=config.integer("codec_pad_id", minimum=0, below=vocab),
            bos=config.integer("codec_bos_id", minimum=0, below=vocab),
            eos=config.integer("codec_eos_token_id", minimum=0, below=vocab),
            think=config.integer("codec_think_id", minimum=0, below=vocab),
            nothink=config.integer("codec_nothink_id", minimum=0, below=vocab),
            think_bos=config.integer("codec_think_bos_id", minimum=0, below=vocab),
            think_eos=config.integer("codec_think_eos_id", minimum=0, below=vocab),
        ),
        languages=languages,
        speakers=speakers,
        dialects=_read_dialects(config.object("spk_is_dialect"), speakers, languages),
    )


def _read_predictor(config: Keys) -> CodePredictorArchitecture:
    _expect_plain_qwen3(config)
    config.expect("num_code_groups", CODEBOOKS)
    return CodePredictorArchitecture(
        transformer=read_transformer(config, "rms_norm_eps"), vocab=config.integer("vocab_size")
    )


def _expect_plain_qwen3(config: Keys) -> None:
    """Raise CheckpointError if the file asks for a variant that our models do not implement (SPEC 2 and 5)."""
    config.expect("hidden_act", "silu")
    config.expect("use_sliding_window", False)
    config.expect("sliding_window", None)


def _read_ids(table: Keys, vocab: int) -> dict[str, int]:
    """Return name -> codec id. A list of one element counts as that element."""
    ids = {}
    for name, value in table.values.items():
        found = value[0] if isinstance(value, list) and len(value) == 1 else value
        if not is_integer(found) or not 0 <= found < vocab:
            raise table.wrong(name, f"an id in 0..{vocab - 1}", value)
        ids[name] = found
    return ids


def _read_dialects(table: Keys, speakers: dict[str, int], languages: dict[str, int]) -> dict[str, str]:
    """Return speaker -> dialect, from entries that are false or the name of a language."""
    for name, value in table.values.items():
        if value is not False and value not in languages:
            raise table.wrong(name, "false or a name of codec_language_id", value)
    return {name: table.values[name] for name in speakers if table.values.get(name, False)}


def _read_text_ids(config: Keys, text_vocab: int) -> TextIds:
    return TextIds(
        im_start=config.integer("im_start_token_id", minimum=0, below=text_vocab),
        im_end=config.integer("im_end_token_id", minimum=0, below=text_vocab),
        tts_pad=config.integer("tts_pad_token_id", minimum=0, below=text_vocab),
        tts_bos=config.integer("tts_bos_token_id", minimum=0, below=text_vocab),
        tts_eos=config.integer("tts_eos_token_id", minimum=0, below=text_vocab),
    )


def _read_speaker_encoder(model: Keys, talker_width: int) -> SpeakerEncoderArchitecture | None:
    if not model.has("speaker_encoder_config"):
        return None
    given = model.object("speaker_encoder_config")
    width = given.integer("enc_dim")
    if width != talker_width:
        raise given.wrong("enc_dim", f"{talker_width}, the talker's hidden_size", width)
    given.expect("sample_rate", SAMPLE_RATE)
    full = Keys(_ECAPA | given.values, given.file, given.name("")[:-1])
    return SpeakerEncoderArchitecture(
        mel_dim=full.integer("mel_dim"),
        width=width,
        channels=full.integers("enc_channels", length=_ECAPA_BLOCKS),
        kernel_sizes=full.integers("enc_kernel_sizes", length=_ECAPA_BLOCKS),
        dilations=full.integers("enc_dilations", length=_ECAPA_BLOCKS),
        attention_channels=full.integer("enc_attention_channels"),
        res2net_scale=full.integer("enc_res2net_scale"),
        se_channels=full.integer("enc_se_channels"),
        sample_rate=full.integer("sample_rate"),
    )
