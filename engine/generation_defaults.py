"""The sampling values of a checkpoint's generation_config.json (SPEC 6). Free of torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.checksums import Checksums
from engine.strict_json import Keys, read_json


@dataclass(frozen=True, slots=True)
class GenerationDefaults:
    """What a request that says nothing gets; these values are for a checkpoint that says nothing.

    do_sample and subtalker_dosample: False means greedy, for codebook 0 and for codebooks 1..15.
    top_k 0: no such limit. top_p 1: no such limit. max_new_tokens N: at most N - 1 frames.
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
    """Raises CheckpointError for a value of the wrong type or outside its range."""
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
