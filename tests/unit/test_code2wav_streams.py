"""The number of Code2Wav streams follows the talker's slots; too few streams are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from engine.config import Code2WavConfig, EngineConfig, TalkerConfig
from server.settings import load_settings

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.mark.parametrize(("slots", "streams"), [(1, 2), (8, 16), (64, 128)])
def test_the_default_is_twice_the_slots(slots: int, streams: int) -> None:
    assert EngineConfig(model="", talker=TalkerConfig(slots=slots)).code2wav_streams == streams


def test_refuses_fewer_streams_than_slots() -> None:
    with pytest.raises(ValidationError, match=r"code2wav\.streams must be at least talker\.slots \(64\), got 16"):
        EngineConfig(model="", talker=TalkerConfig(slots=64), code2wav=Code2WavConfig(streams=16))
    assert EngineConfig(model="", code2wav=Code2WavConfig(streams=8)).code2wav_streams == 8


@pytest.mark.parametrize(
    ("name", "slots", "streams"),
    [("pocket", 8, 16), ("qwen3-0.6b", 8, 16), ("qwen3-1.7b", 8, 16), ("h200-1.7b", 256, 512)],
)
def test_streams_of_the_shipped_configurations(name: str, slots: int, streams: int) -> None:
    engine = load_settings(CONFIGS / f"{name}.yaml").engine
    assert (engine.talker.slots, engine.code2wav_streams) == (slots, streams)
