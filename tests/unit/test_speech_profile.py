"""sonant.json: what a checkpoint was trained for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import get_args

import pytest

from engine.checkpoint.checksums import Checksums
from engine.checkpoint.speech_profile import PROFILE_FILE, read_speech_profile
from engine.errors import CheckpointError
from engine.protocol.request import EngineInfo
from engine.protocol.speech_profile import SpeechProfile, TextStep
from server.text.frontend import STEPS

POCKET = Path("models/pocket")
EVERY_STEP: tuple[TextStep, ...] = ("unicode", "markup", "emoji", "normalize", "quotes")


def read(folder: Path, text: str | None) -> SpeechProfile:
    if text is not None:
        (folder / PROFILE_FILE).write_text(text, encoding="utf-8")
    return read_speech_profile(folder, Checksums.load(folder))


def test_without_the_file_the_profile_is_the_one_of_the_published_checkpoints(tmp_path: Path) -> None:
    assert read(tmp_path, None) == SpeechProfile(("unicode", "markup", "emoji"), (), 300, (1.0, 30.0), None)


def test_the_pocket_checkpoint_reads_english_with_every_step() -> None:
    profile = read_speech_profile(POCKET, Checksums.load(POCKET))
    assert profile == SpeechProfile(EVERY_STEP, ("english",), 200, (1.0, 7.0), 18.7, 4.0, "sentences", "full")


def test_a_key_that_is_left_out_has_its_default(tmp_path: Path) -> None:
    assert read(tmp_path, '{"piece_characters": 120}') == SpeechProfile(piece_characters=120)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"speed": 2}, "the key speed is unknown, expected some of text_steps, languages, piece_characters,"),
        ({"text_steps": ["markup", "sing"]}, "text_steps.1 must be "),
        ({"text_steps": "markup"}, 'text_steps must be a list, found "markup"'),
        ({"languages": ["English"]}, 'languages.0 must be a lower-case name, found "English"'),
        ({"piece_characters": 3}, "piece_characters must be at least 40, found 3"),
        ({"piece_characters": "200"}, 'piece_characters must be an integer, found "200"'),
        ({"live_text": "all"}, 'live_text must be "words" or "sentences"'),
        ({"text_layout": "both"}, 'text_layout must be "streaming" or "full", found "both"'),
        ({"embedding_norm": -1}, "embedding_norm must be at least 0.0, found -1"),
        ({"characters_per_second": 0}, "characters_per_second must be greater than 0, found 0"),
        (
            {"reference_seconds": [7, 1]},
            "reference_seconds must be two numbers above 0 in ascending order, found [7, 1]",
        ),
        ({"reference_seconds": [1]}, "reference_seconds must be two numbers above 0 in ascending order, found [1]"),
        ({"reference_seconds": [1, "x"]}, "reference_seconds must be two numbers above 0 in ascending order"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(tmp_path: Path, content: dict[str, object], message: str) -> None:
    with pytest.raises(CheckpointError) as refused:
        read(tmp_path, json.dumps(content))
    assert refused.value.message.startswith(f"{tmp_path / PROFILE_FILE}: {message}")


def test_a_damaged_profile_is_refused(tmp_path: Path) -> None:
    shutil.copyfile(POCKET / "SHA256SUMS", tmp_path / "SHA256SUMS")
    with pytest.raises(CheckpointError, match=r"sonant\.json is damaged"):
        read(tmp_path, "{}")


def test_the_engine_and_the_front_end_have_the_same_steps() -> None:
    assert get_args(TextStep) == STEPS


def test_clients_of_the_engine_receive_the_profile() -> None:
    profile = SpeechProfile(EVERY_STEP, ("french",), 90, (2.0, 3.5), 14.5)
    info = EngineInfo("m", ("Base",), (), ("English", "French"), None, False, True, 64, "cpu", profile)
    assert EngineInfo.from_bytes(info.to_bytes()) == info
    assert info.readable_languages == ("french",)
