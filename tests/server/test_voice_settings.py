"""The folder of stored voices in the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.settings import SettingsError, load_settings

PLAIN = "engine: {model: org/model}\n"


def voice_folder(config: Path, text: str = PLAIN) -> Path:
    config.write_text(text)
    return load_settings(config).voices.folder


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("SONANT_VOICES__FOLDER", raising=False)
    monkeypatch.setenv("HOME", "/home/anna")
    return tmp_path / "sonant.yaml"


def test_the_default_folder_is_user_data(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert voice_folder(config) == Path("/home/anna/.local/share/sonant/voices")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert voice_folder(config) == Path("/data/sonant/voices")


def test_a_folder_in_the_file_is_relative_to_the_file(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert voice_folder(config, PLAIN + "voices: {folder: ../voices}") == config.parent.parent / "voices"
    assert voice_folder(config, PLAIN + "voices: {folder: /srv/voices}") == Path("/srv/voices")
    assert voice_folder(config, PLAIN + "voices: {folder: ~/voices}") == Path("/home/anna/voices")


def test_a_variable_overrides_the_file(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SONANT_VOICES__FOLDER", "/srv/voices")
    assert voice_folder(config, PLAIN + "voices: {folder: /elsewhere, max_voices: 5}") == Path("/srv/voices")


@pytest.mark.parametrize("text", ["voices: {folder: 5}", "voices: {max_voices: -1}", "voices: {most: 1}"])
def test_an_invalid_setting_is_named(config: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="voices"):
        voice_folder(config, PLAIN + text)
