"""The configuration of the training, read from a YAML file. Missing and unknown keys are errors."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict

from engine.protocol.speech_profile import SpeechProfile

DEFAULT = Path(__file__).with_name("pocket.yaml")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Texts(_Section):
    """The texts to speak.

    vocabulary: number of BPE tokens. sentences: number of sentences. shares: maximum sentences by source.
    joined: share of utterances with several sentences. as_typed: share of sentences that skip the front end.
    """

    vocabulary: int
    sentences: int
    shares: dict[str, int]
    joined: float
    as_typed: float


class NamedVoice(_Section):
    """A voice of the checkpoint. mix: teacher voice -> weight. share: of all utterances."""

    mix: dict[str, float]
    accent: Literal["american", "british"]
    share: float


class Voices(_Section):
    """The speakers. mixed: number of additional mixtures. varied: number of speakers with changed bodies.

    first: named voice that the checkpoint lists first, which makes it the default voice.
    varied_share: of the utterances that are not of named voices. unseen: number of mixtures only for the judge.
    speed: range.
    """

    named: dict[str, NamedVoice]
    first: str
    mixed: int
    varied: int
    varied_share: float
    unseen: int
    speed: tuple[float, float]


class CodecDecoder(_Section):
    """The sizes of Code2Wav. width: channels before the first upsampling block."""

    width: int
    latent: int
    hidden: int
    intermediate: int
    layers: int
    head_dim: int
    window: int


class CodecEncoder(_Section):
    """The sizes of the speech encoder."""

    filters: int
    hidden: int
    intermediate: int
    layers: int
    head_dim: int


class Codec(_Section):
    """The sizes of the codec. codebook_dim: width of the codebooks' vectors."""

    codebook_size: int
    codebook_dim: int
    decoder: CodecDecoder
    encoder: CodecEncoder


class SpeakerEncoder(_Section):
    """The sizes of the ECAPA-TDNN."""

    channels: list[int]
    attention: int
    squeeze: int


class SpeakerTraining(_Section):
    """Batches, settings of AdamW, and losses: margin and scale of the angular margin softmax, weight of the mixture."""

    hours: float
    unseen_speakers: int
    batch_seconds: float
    crop_seconds: list[float]
    learning_rate: float
    weight_decay: float
    margin: float
    scale: float
    mixture_weight: float


class Transformer(_Section):
    """The sizes of a Qwen3 stack."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int


class Talker(_Section):
    """Talker and code predictor. xvector_scale: factor from x-vectors of unit RMS to embedding rows."""

    text_hidden: int
    xvector_scale: float
    model: Transformer
    predictor: Transformer


class Layouts(_Section):
    """Shares of the prompt layouts. In-context prompts have either text layout."""

    full: float
    streaming: float
    in_context: float


class TalkerDraws(_Section):
    """How an utterance becomes a training example. Fields without a description are shares of utterances.

    xvector_noise: relative to the vector's RMS. reference_frames: minimum and maximum length of a reference.
    phonemes: share of texts in which some words are written as phonemes (``word_phonemes``).
    target_frames: maximum length of joined utterances. degraded: share of references that have noise, if there are any.
    corrupted: share of references of which many codes are replaced. other_xvector: share of references that are beside
    the x-vector of another speaker, so that the talker listens to the reference.
    code_noise: share of input codes that are replaced by those of another frame. merge_dropout: probability that a
    merge of the tokenizer is skipped.
    """

    layouts: Layouts
    by_id: float
    english: float
    joined: float
    altered_text: float
    phonemes: float
    xvector_noise: float
    reference_frames: tuple[int, int]
    target_frames: int
    degraded: float
    corrupted: float
    other_xvector: float
    code_noise: float
    merge_dropout: float


class TalkerTraining(_Section):
    """How the talker is trained.

    positions: rows of a batch on each GPU. predictor_weight: weight of the loss of codebooks 1 to 15 relative to that
    of codebook 0. book_decay: weight of each codebook relative to the previous one.
    """

    draws: TalkerDraws
    positions: int
    learning_rate: float
    last_rate: float
    warm_up: int
    weight_decay: float
    clip: float
    average: float
    dropout: float
    predictor_weight: float
    book_decay: float


class Generation(_Section):
    """generation_config.json: default sampling parameters (SPEC 6)."""

    temperature: float
    top_k: int
    top_p: float
    repetition_penalty: float
    subtalker_temperature: float
    subtalker_top_k: int
    subtalker_top_p: float
    max_new_tokens: int


class Pocket(_Section):
    """The complete configuration."""

    seed: int
    texts: Texts
    voices: Voices
    codec: Codec
    speaker_encoder: SpeakerEncoder
    speaker_training: SpeakerTraining
    talker: Talker
    talker_training: TalkerTraining
    generation: Generation
    profile: SpeechProfile


def load(file: Path = DEFAULT) -> Pocket:
    """Read the configuration. Raises pydantic.ValidationError, which names the key."""
    return Pocket.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")))
