"""config.json to ``ModelArchitecture``. The codec's is read by ``engine.codec_config_reader``."""

from __future__ import annotations

from engine.architecture import (
    CodecIds,
    CodePredictorArchitecture,
    ModelArchitecture,
    SpeakerEncoderArchitecture,
    TalkerArchitecture,
    TextIds,
    Transformer,
)
from engine.errors import CheckpointError
from engine.request import CODEBOOKS, SAMPLE_RATE
from engine.strict_json import Keys, is_integer

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
"""SPEC 7: the published files name only the x-vector's width and the sample rate; this is the network."""


def read_model(config: Keys) -> ModelArchitecture:
    """The talker's side of a checkpoint, as its config.json describes it.

    The speaker encoder is given whenever the file describes one; whether its tensors are there is
    for the checkpoint to say. Raises CheckpointError naming file and key.
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
    """The keys that all of the family's transformers share."""
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
    """SPEC 2 and 5: what the two models implement, where the file could ask for something else."""
    config.expect("hidden_act", "silu")
    config.expect("use_sliding_window", False)
    config.expect("sliding_window", None)


def _read_ids(table: Keys, vocab: int) -> dict[str, int]:
    """Name -> codec id. A one-element list means its element."""
    ids = {}
    for name, value in table.values.items():
        found = value[0] if isinstance(value, list) and len(value) == 1 else value
        if not is_integer(found) or not 0 <= found < vocab:
            raise table.wrong(name, f"an id in 0..{vocab - 1}", value)
        ids[name] = found
    return ids


def _read_dialects(table: Keys, speakers: dict[str, int], languages: dict[str, int]) -> dict[str, str]:
    """Speaker -> dialect, from entries that are false or the name of a language."""
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
