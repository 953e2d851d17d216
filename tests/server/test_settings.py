"""Where settings come from, and what becomes of a wrong one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from server.settings import SettingsError, load_settings
from server.voices.resolve import OPENAI_VOICES

PLAIN = "engine: {model: org/model}\n"


@pytest.fixture(autouse=True)
def _no_variables_of_this_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in os.environ:
        if name.startswith("SONANT_"):
            monkeypatch.delenv(name)


def write(folder: Path, text: str = PLAIN) -> Path:
    path = folder / "sonant.yaml"
    path.write_text(text)
    return path


def test_a_flag_beats_a_variable_and_a_variable_beats_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = write(tmp_path, "{host: file, port: 1, served_name: file, engine: {model: org/model}}")
    monkeypatch.setenv("SONANT_PORT", "2")
    monkeypatch.setenv("SONANT_SERVED_NAME", "variable")
    settings = load_settings(config, {"served_name": "flag"})
    assert (settings.host, settings.port, settings.served_name) == ("file", 2, "flag")


def test_nested_settings_are_merged_key_by_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = write(tmp_path, "engine: {model: org/model, threads: 1, talker: {slots: 3, context: 128}}")
    monkeypatch.setenv("SONANT_ENGINE__TALKER__SLOTS", "5")
    monkeypatch.setenv("SONANT_LIMITS__MAX_WAITING", "9")
    settings = load_settings(config, {"engine": {"model": "org/other"}})
    assert settings.engine.model == "org/other"
    assert settings.engine.threads == 1
    assert (settings.engine.talker.slots, settings.engine.talker.context) == (5, 128)
    assert settings.limits.max_waiting == 9


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (PLAIN + "prot: 1", "prot"),
        ("engine: {model: org/model, devize: cpu}", "engine.devize"),
        (PLAIN + "limits: {max_input: 3}", "limits.max_input"),
        (PLAIN + "port: many", "port"),
        (PLAIN + "limits: {max_running: 0}", "limits.max_running"),
        ("host: 127.0.0.1", "engine"),
        ("- a list", "sonant.yaml"),
        ("engine: [", "sonant.yaml"),
    ],
)
def test_a_wrong_file_is_refused_by_the_key_at_fault(tmp_path: Path, text: str, key: str) -> None:
    with pytest.raises(SettingsError, match=key):
        load_settings(write(tmp_path, text))


@pytest.mark.parametrize(
    ("name", "key"),
    [("SONANT_PROT", "SONANT_PROT"), ("SONANT_ENGINE__DEVIZE", "engine.devize"), ("SONANT_PORT", "port")],
)
def test_a_wrong_variable_is_refused_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, key: str
) -> None:
    monkeypatch.setenv(name, "tcp://10.0.0.1:80")
    with pytest.raises(SettingsError, match=key):
        load_settings(write(tmp_path))


def test_an_error_shows_the_value_but_no_secret(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"port: .* less than or equal to 65535, got 70000"):
        load_settings(write(tmp_path, PLAIN + "port: 70000"))
    with pytest.raises(SettingsError, match="api_key: ") as error:
        load_settings(write(tmp_path, PLAIN + "api_key: 12345678"))
    assert "12345678" not in str(error.value)


def test_variables_of_the_client_scripts_are_no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SONANT_SERVER", "http://127.0.0.1:8000")
    assert load_settings(write(tmp_path)).port == 8000


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.yaml"):
        load_settings(tmp_path / "nowhere.yaml")


def test_a_wheel_has_no_file_and_with_a_model_named_needs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.settings.DEFAULT_CONFIG", tmp_path / "configs" / "pocket.yaml")
    settings = load_settings(flags={"engine": {"model": "org/model"}, "port": 1})
    assert (settings.engine.model, settings.port) == ("org/model", 1)
    with pytest.raises(SettingsError, match="--model"):
        load_settings()
    monkeypatch.setenv("SONANT_ENGINE__MODEL", "org/other")
    assert load_settings().engine.model == "org/other"


@pytest.mark.parametrize("model", ["./here", "here", "../beside/here"])
def test_a_model_folder_is_found_from_the_file_and_not_from_where_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    folder = tmp_path / "beside"
    (folder / "here").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    settings = load_settings(write(folder, f"engine: {{model: {model}}}"))
    assert settings.engine.model == str(folder / "here")
    assert settings.model_name == "here"


def test_a_model_folder_that_is_not_there_yet_still_means_a_folder(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, "engine: {model: ../models/pocket}"))
    assert settings.engine.model == str(tmp_path.parent / "models" / "pocket")


def test_a_model_flag_is_found_from_where_one_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load_settings(write(tmp_path), {"engine": {"model": "mine"}}).engine.model == str(tmp_path / "mine")


def test_every_openai_voice_is_one_of_the_checkpoints_that_ships() -> None:
    settings = load_settings()
    speakers = json.loads(Path(settings.engine.model, "config.json").read_text())["talker_config"]["spk_id"]
    assert settings.voice_aliases.keys() == OPENAI_VOICES
    assert set(settings.voice_aliases.values()) <= speakers.keys()
    assert next(iter(speakers)) == "ava"


def test_a_hub_name_stays_one_and_gives_the_served_name(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path))
    assert (settings.engine.model, settings.model_name) == ("org/model", "model")


def test_every_configuration_that_ships_can_be_loaded() -> None:
    shipped = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
    assert shipped
    for path in shipped:
        load_settings(path)


def test_folders_of_recordings_are_found_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside").mkdir()
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "beside", PLAIN + "references: {folders: [recordings, /srv/voices]}")
    assert load_settings(path).references.folders == (tmp_path / "beside" / "recordings", Path("/srv/voices"))


def test_no_folder_and_no_private_host_is_open_unless_it_is_named(tmp_path: Path) -> None:
    references = load_settings(write(tmp_path)).references
    assert (references.folders, references.private_hosts, references.fetch_urls) == ((), (), True)


def test_a_private_host_that_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"references\.private_hosts"):
        load_settings(write(tmp_path, PLAIN + "references: {private_hosts: ['http://media.intranet']}"))
