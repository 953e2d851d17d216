"""Reads config.json, speech_tokenizer/config.json and generation_config.json of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StrictBool, TypeAdapter

from engine.checkpoint.architecture import CodecArchitecture, ModelArchitecture
from engine.checkpoint.checksums import Checksums
from engine.checkpoint.json_file import Count, PositiveNumber, json_object, parse, read_json
from engine.errors import CheckpointError
from engine.protocol.request import CODEBOOKS, SAMPLE_RATE, SAMPLES_PER_FRAME

_TokenLimit = Annotated[int, Field(strict=True, ge=0)]
_Probability = Annotated[PositiveNumber, Field(le=1)]


@dataclass(frozen=True, slots=True)
class GenerationDefaults:
    """Default sampling parameters of a request. The values here apply if the checkpoint sets none.

    do_sample, subtalker_dosample: False selects greedy decoding, of codebook 0 and of codebooks 1..15.
    top_k: 0 means no limit. top_p: 1 means no limit. max_new_tokens: N allows at most N - 1 frames.
    """

    do_sample: StrictBool = True
    temperature: PositiveNumber = 0.9
    top_k: _TokenLimit = 50
    top_p: _Probability = 1.0
    repetition_penalty: PositiveNumber = 1.05
    subtalker_dosample: StrictBool = True
    subtalker_temperature: PositiveNumber = 0.9
    subtalker_top_k: _TokenLimit = 50
    subtalker_top_p: _Probability = 1.0
    max_new_tokens: Count = 2048


_GENERATION = TypeAdapter(GenerationDefaults)
_MODEL = TypeAdapter(
    Annotated[ModelArchitecture, json_object(tokenizer_type="qwen3_tts_tokenizer_12hz")],
)
_CODEC = TypeAdapter(
    Annotated[
        CodecArchitecture,
        json_object(
            model_type="qwen3_tts_tokenizer_12hz",
            encoder_valid_num_quantizers=CODEBOOKS,
            input_sample_rate=SAMPLE_RATE,
            output_sample_rate=SAMPLE_RATE,
            decode_upsample_rate=SAMPLES_PER_FRAME,
            encode_downsample_rate=SAMPLES_PER_FRAME,
        ),
    ]
)


def read_generation_defaults(folder: Path, checksums: Checksums) -> GenerationDefaults:
    """Read generation_config.json, if there is one. Raises CheckpointError for a wrong type or a value out of range."""
    file = folder / "generation_config.json"
    if not file.exists() and not checksums.lists(file):
        return GenerationDefaults()
    values = {name: value for name, value in read_json(file, checksums).items() if value is not None}
    return parse(_GENERATION, values, file)


def read_model(config: dict[str, Any], file: Path) -> ModelArchitecture:
    """Return the talker part of a checkpoint. config: the content of ``file``, its config.json.

    The result has a speaker encoder if the file describes one. The caller checks whether its tensors exist.
    Raises CheckpointError with the file and the key.
    """
    _require(config, "tokenizer_type", file)
    return parse(_MODEL, config, file)


def read_codec(config: dict[str, Any], file: Path) -> CodecArchitecture:
    """Return the codec part of a checkpoint. config: the content of ``file``, its speech_tokenizer/config.json.

    The result has an encoder if the file describes one. The caller checks whether its tensors exist.
    Raises CheckpointError with the file and the key.
    """
    _require(config, "model_type", file)
    codec = parse(_CODEC, config, file)
    if codec.encoder is not None:
        _require(config, "encoder_valid_num_quantizers", file)
    return codec


def _require(config: dict[str, Any], name: str, file: Path) -> None:
    if name not in config:
        raise CheckpointError(f"{file}: the key {name} is missing")
