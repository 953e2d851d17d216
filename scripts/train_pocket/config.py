"""The configuration of the training, read from one YAML file; a key that is not there or not known is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict

DEFAULT = Path(__file__).with_name("pocket.yaml")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Texts(_Section):
    """vocabulary: BPE tokens; sentences: to be spoken; shares: most of each source; joined: share of several in one."""

    vocabulary: int
    sentences: int
    shares: dict[str, int]
    joined: float


class NamedVoice(_Section):
    """A speaker of the checkpoint. mix: teacher voice -> weight; share: of all utterances."""

    mix: dict[str, float]
    accent: Literal["american", "british"]
    share: float


class Voices(_Section):
    """Who speaks. mixed: further speakers; unseen: speakers that are kept for the judge; speed: range."""

    named: dict[str, NamedVoice]
    mixed: int
    unseen: int
    speed: tuple[float, float]


class CodecDecoder(_Section):
    """Code2Wav's sizes. width: channels before the first upsampling block."""

    width: int
    latent: int
    hidden: int
    intermediate: int
    layers: int
    head_dim: int
    window: int


class CodecEncoder(_Section):
    """The speech encoder's sizes."""

    filters: int
    hidden: int
    intermediate: int
    layers: int
    head_dim: int


class Codec(_Section):
    """codebook_dim: width in which vectors are compared."""

    codebook_size: int
    codebook_dim: int
    decoder: CodecDecoder
    encoder: CodecEncoder


class SpeakerEncoder(_Section):
    """The ECAPA-TDNN's sizes."""

    channels: list[int]
    attention: int
    squeeze: int


class SpeakerTraining(_Section):
    """Batches, AdamW's settings, and the losses: angular margin softmax's margin and scale, the mixture's weight."""

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
    """A Qwen3 stack's sizes."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int


class Talker(_Section):
    """Talker and code predictor. xvector_scale: what x-vectors of unit size are multiplied by to be embedding rows."""

    text_hidden: int
    xvector_scale: float
    model: Transformer
    predictor: Transformer


class Layouts(_Section):
    """Shares of the prompts of a batch; in-context ones take either text layout."""

    full: float
    streaming: float
    in_context: float


class TalkerDraws(_Section):
    """How an utterance becomes a training example: shares of utterances, and what is said here.

    xvector_noise: relative to the vector's size; reference_frames: at most;
    code_noise: share of input codes that are taken from another frame.
    """

    layouts: Layouts
    by_id: float
    english: float
    joined: float
    altered_text: float
    xvector_noise: float
    reference_frames: int
    code_noise: float


class TalkerTraining(_Section):
    """How the talker is trained.

    positions: rows of a batch, on each GPU; predictor_weight: of the loss of codebooks 1 to 15 beside that of
    codebook 0; book_decay: each book's weight relative to the one before.
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
    """generation_config.json: how codes are drawn where a request does not say (SPEC 6)."""

    temperature: float
    top_k: int
    top_p: float
    repetition_penalty: float
    subtalker_temperature: float
    subtalker_top_k: int
    subtalker_top_p: float
    max_new_tokens: int


class Pocket(_Section):
    """The whole file."""

    seed: int
    texts: Texts
    voices: Voices
    codec: Codec
    speaker_encoder: SpeakerEncoder
    speaker_training: SpeakerTraining
    talker: Talker
    talker_training: TalkerTraining
    generation: Generation


def load(file: Path = DEFAULT) -> Pocket:
    """Read the configuration. Raises pydantic's ValidationError naming the key."""
    return Pocket.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")))
