"""The sizes and token ids that define a checkpoint's networks, as read from its JSON files. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictStr, ValidationInfo

from engine.checkpoint.json_file import THIS, Count, PositiveNumber, UnsupportedValue, below, json_object, key, limit
from engine.protocol.request import CODEBOOKS, SAMPLE_RATE, SAMPLES_PER_FRAME

_Counts = Annotated[tuple[Count, ...], Field(min_length=1)]
_FiveCounts = Annotated[tuple[Count, ...], Field(min_length=5, max_length=5)]
_CodecId = Annotated[int, Field(strict=True, ge=0), below("vocab_size")]
_TextId = Annotated[int, Field(strict=True, ge=0), below("text_vocab_size")]


def _divides_heads(kv_heads: int, info: ValidationInfo) -> int:
    heads = info.data.get("heads", kv_heads)
    if heads % kv_heads:
        raise UnsupportedValue(f"a divisor of {heads} (num_attention_heads)")
    return kv_heads


@dataclass(frozen=True, slots=True)
class Transformer:
    """A stack of decoder layers. eps: of its norms. rope_theta: the base of its rotary position embeddings."""

    hidden: Annotated[Count, key("hidden_size")]
    intermediate: Annotated[Count, key("intermediate_size")]
    layers: Annotated[Count, key("num_hidden_layers")]
    heads: Annotated[Count, key("num_attention_heads")]
    kv_heads: Annotated[Count, AfterValidator(_divides_heads), key("num_key_value_heads")]
    head_dim: Annotated[Count, Field(multiple_of=2)]
    rope_theta: PositiveNumber
    eps: Annotated[PositiveNumber, key("rms_norm_eps")]


@dataclass(frozen=True, slots=True)
class CodecIds:
    """Codec-side special ids, which are not codes: rows of the talker's codec embedding."""

    pad: Annotated[_CodecId, key("codec_pad_id")]
    bos: Annotated[_CodecId, key("codec_bos_id")]
    eos: Annotated[_CodecId, key("codec_eos_token_id")]
    think: Annotated[_CodecId, key("codec_think_id")]
    nothink: Annotated[_CodecId, key("codec_nothink_id")]
    think_bos: Annotated[_CodecId, key("codec_think_bos_id")]
    think_eos: Annotated[_CodecId, key("codec_think_eos_id")]


@dataclass(frozen=True, slots=True)
class TextIds:
    """Text-side special token ids that the prompt uses."""

    im_start: Annotated[_TextId, key("im_start_token_id")]
    im_end: Annotated[_TextId, key("im_end_token_id")]
    tts_pad: Annotated[_TextId, key("tts_pad_token_id")]
    tts_bos: Annotated[_TextId, key("tts_bos_token_id")]
    tts_eos: Annotated[_TextId, key("tts_eos_token_id")]


_QWEN3 = {"attention_bias": False, "hidden_act": "silu", "use_sliding_window": False, "sliding_window": None}
"""The only variant of Qwen3 that the engine implements (SPEC 2 and 5)."""


@dataclass(frozen=True, slots=True)
class CodePredictorArchitecture:
    """The model that predicts codebooks 1..15. vocab: the size of one codebook."""

    transformer: Annotated[Transformer, json_object(**_QWEN3), key(THIS)]
    vocab: Annotated[Count, key("vocab_size")]


def _unwrap(value: Any) -> Any:
    """Return the element of a list of one."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


_IdsByName = dict[str, Annotated[_CodecId, BeforeValidator(_unwrap)]]


def _without_false(table: Any, info: ValidationInfo) -> Any:
    """Return speaker -> dialect. In the file, the value of a speaker without a dialect is false."""
    if not isinstance(table, dict):
        return table
    for name, value in table.items():
        if value is not False and value not in list(info.data.get("languages", ())):
            raise UnsupportedValue("false or a name of codec_language_id", name)
    return {name: table[name] for name in info.data.get("speakers", ()) if table.get(name, False)}


@dataclass(frozen=True, slots=True)
class TalkerArchitecture:
    """The model that predicts codebook 0, and the names that have rows in its codec embedding.

    vocab: size of the codec-side vocabulary. text_vocab, text_hidden: vocabulary and embedding width of the text side.
    codebooks: codes per frame. languages, speakers: name -> codec id. dialects: speaker -> language, only for speakers
    of a dialect.
    """

    transformer: Annotated[Transformer, json_object(**_QWEN3), key(THIS)]
    vocab: Annotated[Count, limit("vocab_size"), key("vocab_size")]
    text_vocab: Annotated[Count, limit("text_vocab_size"), key("text_vocab_size")]
    text_hidden: Annotated[Count, key("text_hidden_size")]
    codebooks: Annotated[Literal[16], key("num_code_groups")]
    predictor: Annotated[
        CodePredictorArchitecture, json_object(num_code_groups=CODEBOOKS), key("code_predictor_config")
    ]
    ids: Annotated[CodecIds, key(THIS)]
    languages: Annotated[_IdsByName, key("codec_language_id")]
    speakers: Annotated[_IdsByName, key("spk_id")]
    dialects: Annotated[dict[str, str], BeforeValidator(_without_false), key("spk_is_dialect")]


@dataclass(frozen=True, slots=True)
class SpeakerEncoderArchitecture:
    """The ECAPA-TDNN that computes x-vectors (SPEC 7). width: of the x-vector.

    The published files have ``enc_dim`` and ``sample_rate`` only.
    """

    width: Annotated[Count, key("enc_dim")]
    sample_rate: Literal[24000]
    mel_dim: Count = 128
    channels: Annotated[_FiveCounts, key("enc_channels")] = (512, 512, 512, 512, 1536)
    kernel_sizes: Annotated[_FiveCounts, key("enc_kernel_sizes")] = (5, 3, 3, 3, 1)
    dilations: Annotated[_FiveCounts, key("enc_dilations")] = (1, 2, 3, 4, 1)
    attention_channels: Annotated[Count, key("enc_attention_channels")] = 128
    res2net_scale: Annotated[Count, key("enc_res2net_scale")] = 8
    se_channels: Annotated[Count, key("enc_se_channels")] = 128


def _is_trained(untrained: Any) -> bool:
    if untrained is not None and not isinstance(untrained, bool):
        raise UnsupportedValue("true or false")
    return not untrained


def _as_wide_as_talker(
    encoder: SpeakerEncoderArchitecture | None, info: ValidationInfo
) -> SpeakerEncoderArchitecture | None:
    talker: TalkerArchitecture | None = info.data.get("talker")
    if encoder is not None and talker is not None and encoder.width != talker.transformer.hidden:
        raise UnsupportedValue(f"{talker.transformer.hidden}, the talker's hidden_size", "enc_dim")
    return encoder


@dataclass(frozen=True, slots=True)
class Packing:
    """How ``sonant pack`` has quantized the talker (``engine.checkpoint.packing``).

    version: of the packed tensors. weights: the format of the decoder layers.
    """

    method: Annotated[Literal["sonant"], key("quant_method")]
    version: Literal[1]
    weights: Literal["int8", "int4"]


@dataclass(frozen=True, slots=True)
class ModelArchitecture:
    """The talker part of a checkpoint: config.json and model.safetensors.

    size: "0b6", "1b7" or the name of another size. kind: "base", "custom_voice" or "voice_design".
    speaker_encoder: None if the checkpoint cannot clone.
    trained: False if config.json contains ``"untrained": true``. packing: None unless the checkpoint is packed.
    """

    size: Annotated[StrictStr, key("tts_model_size")]
    kind: Annotated[Literal["base", "custom_voice", "voice_design"], key("tts_model_type")]
    talker: Annotated[TalkerArchitecture, json_object(), key("talker_config")]
    text_ids: Annotated[TextIds, key(THIS)]
    speaker_encoder: Annotated[
        SpeakerEncoderArchitecture | None,
        json_object(),
        AfterValidator(_as_wide_as_talker),
        key("speaker_encoder_config"),
    ] = None
    trained: Annotated[bool, BeforeValidator(_is_trained), key("untrained")] = True
    packing: Annotated[Packing | None, json_object(), key("quantization_config")] = None


@dataclass(frozen=True, slots=True)
class DecoderArchitecture:
    """Code2Wav, which decodes codes to samples (SPEC 9). Rates and ratios are in the order of the blocks."""

    transformer: Annotated[Transformer, json_object(attention_bias=False, hidden_act="silu"), key(THIS)]
    latent: Annotated[Count, key("latent_dim")]
    codebook_dim: Count
    codebook_size: Count
    quantizers: Annotated[Literal[16], key("num_quantizers")]
    decoder_dim: Count
    sliding_window: Count
    upsample_rates: _Counts
    upsampling_ratios: _Counts


@dataclass(frozen=True, slots=True)
class MimiTransformer(Transformer):
    """A ``Transformer`` whose eps has another key."""

    eps: Annotated[PositiveNumber, key("norm_eps")]


_MIMI = {
    "attention_bias": False,
    "audio_channels": 1,
    "hidden_act": "gelu",
    "normalize": False,
    "num_residual_layers": 1,
    "pad_mode": "constant",
    "sampling_rate": SAMPLE_RATE,
    "use_causal_conv": True,
    "use_conv_shortcut": False,
}
"""The only variant of Mimi's encoder that the engine implements (SPEC 8)."""


@dataclass(frozen=True, slots=True)
class SpeechEncoderArchitecture:
    """Mimi's encoder, which encodes samples as codes (SPEC 8).

    ratios: in the order of the file; the blocks apply them in reverse order.
    quantizers: number of quantizers in the file. The first ``semantic_quantizers`` of them are the semantic ones. Only
    the first ``valid_quantizers`` produce codes.
    """

    transformer: Annotated[MimiTransformer, json_object(**_MIMI), key(THIS)]
    filters: Annotated[Count, key("num_filters")]
    kernel: Annotated[Count, key("kernel_size")]
    last_kernel: Annotated[Count, key("last_kernel_size")]
    residual_kernel: Annotated[Count, key("residual_kernel_size")]
    compress: Count
    ratios: Annotated[_Counts, key("upsampling_ratios")]
    codebook_dim: Annotated[Count, key("vector_quantization_hidden_dimension")]
    codebook_size: Count
    quantizers: Annotated[Count, Field(ge=CODEBOOKS), limit("num_quantizers"), key("num_quantizers")]
    semantic_quantizers: Annotated[Count, below("num_quantizers"), key("num_semantic_quantizers")]
    valid_quantizers: int = CODEBOOKS


def _check_decoder(decoder: DecoderArchitecture) -> DecoderArchitecture:
    _check_heads(decoder.transformer)
    ratios = list(decoder.upsampling_ratios)
    if prod(decoder.upsample_rates) * prod(ratios) != SAMPLES_PER_FRAME:
        allowed = f"factors whose product with upsampling_ratios {ratios} is {SAMPLES_PER_FRAME}"
        raise UnsupportedValue(allowed, "upsample_rates")
    return decoder


def _check_encoder(encoder: SpeechEncoderArchitecture | None) -> SpeechEncoderArchitecture | None:
    if encoder is not None:
        _check_heads(encoder.transformer)
    return encoder


def _check_heads(transformer: Transformer) -> None:
    """Raise UnsupportedValue for grouped-query attention, which the codec's networks do not implement."""
    if transformer.kv_heads != transformer.heads:
        raise UnsupportedValue(f"{transformer.heads} (num_attention_heads)", "num_key_value_heads")


@dataclass(frozen=True, slots=True)
class CodecArchitecture:
    """The codec part of a checkpoint: the folder speech_tokenizer. encoder: None if the checkpoint has none."""

    decoder: Annotated[
        DecoderArchitecture,
        json_object(num_semantic_quantizers=1),
        AfterValidator(_check_decoder),
        key("decoder_config"),
    ]
    encoder: Annotated[
        SpeechEncoderArchitecture | None, json_object(), AfterValidator(_check_encoder), key("encoder_config")
    ] = None
