"""The sizes and token ids that define a checkpoint's networks. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Transformer:
    """A stack of decoder layers. eps: of its norms. rope_theta: the base of its rotary position embeddings."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    rope_theta: float
    eps: float


@dataclass(frozen=True, slots=True)
class CodecIds:
    """Codec-side special ids, which are not codes: rows of the talker's codec embedding."""

    pad: int
    bos: int
    eos: int
    think: int
    nothink: int
    think_bos: int
    think_eos: int


@dataclass(frozen=True, slots=True)
class TextIds:
    """Text-side special token ids that the prompt uses."""

    im_start: int
    im_end: int
    tts_pad: int
    tts_bos: int
    tts_eos: int


@dataclass(frozen=True, slots=True)
class CodePredictorArchitecture:
    """The model that predicts codebooks 1..15. vocab: the size of one codebook."""

    transformer: Transformer
    vocab: int


@dataclass(frozen=True, slots=True)
class TalkerArchitecture:
    """The model that predicts codebook 0, and the names that have rows in its codec embedding.

    vocab: size of the codec-side vocabulary. text_vocab, text_hidden: vocabulary and embedding width of the text side.
    codebooks: codes per frame. languages, speakers: name -> codec id. dialects: speaker -> language, only for speakers
    of a dialect.
    """

    transformer: Transformer
    vocab: int
    text_vocab: int
    text_hidden: int
    codebooks: int
    predictor: CodePredictorArchitecture
    ids: CodecIds
    languages: dict[str, int]
    speakers: dict[str, int]
    dialects: dict[str, str]


@dataclass(frozen=True, slots=True)
class SpeakerEncoderArchitecture:
    """The ECAPA-TDNN that computes x-vectors (SPEC 7). width: of the x-vector."""

    mel_dim: int
    width: int
    channels: tuple[int, ...]
    kernel_sizes: tuple[int, ...]
    dilations: tuple[int, ...]
    attention_channels: int
    res2net_scale: int
    se_channels: int
    sample_rate: int


@dataclass(frozen=True, slots=True)
class ModelArchitecture:
    """The talker part of a checkpoint: config.json and model.safetensors.

    size: "0b6", "1b7" or the name of another size. kind: "base", "custom_voice" or "voice_design".
    speaker_encoder: None if the checkpoint cannot clone.
    trained: False if config.json contains ``"untrained": true``.
    """

    size: str
    kind: str
    talker: TalkerArchitecture
    text_ids: TextIds
    speaker_encoder: SpeakerEncoderArchitecture | None
    trained: bool


@dataclass(frozen=True, slots=True)
class DecoderArchitecture:
    """Code2Wav, which decodes codes to samples (SPEC 9). Rates and ratios are in the order of the blocks."""

    transformer: Transformer
    latent: int
    codebook_dim: int
    codebook_size: int
    quantizers: int
    decoder_dim: int
    sliding_window: int
    upsample_rates: tuple[int, ...]
    upsampling_ratios: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SpeechEncoderArchitecture:
    """Mimi's encoder, which encodes samples as codes (SPEC 8).

    ratios: in the order of the file; the blocks apply them in reverse order.
    quantizers: number of quantizers in the file. The first ``semantic_quantizers`` of them are the semantic ones. Only
    the first ``valid_quantizers`` produce codes.
    """

    transformer: Transformer
    filters: int
    kernel: int
    last_kernel: int
    residual_kernel: int
    compress: int
    ratios: tuple[int, ...]
    codebook_dim: int
    codebook_size: int
    quantizers: int
    semantic_quantizers: int
    valid_quantizers: int


@dataclass(frozen=True, slots=True)
class CodecArchitecture:
    """The codec part of a checkpoint: the folder speech_tokenizer. encoder: None if the checkpoint has none."""

    decoder: DecoderArchitecture
    encoder: SpeechEncoderArchitecture | None
