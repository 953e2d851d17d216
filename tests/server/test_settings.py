"""Sources of settings, and errors for wrong ones."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from server.served_model import max_running, model_admission
from server.settings import SettingsError, load_settings
from server.voices.resolve import OPENAI_VOICES

PLAIN = "engine: {model: org/model}\n"


@pytest.fixture(autouse=True)
def _remove_sonant_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in os.environ:
        if name.startswith("SONANT_"):
            monkeypatch.delenv(name)


def write_settings(folder: Path, text: str = PLAIN) -> Path:
    path = folder / "sonant.yaml"
    path.write_text(text)
    return path


def test_flags_override_variables_and_variables_override_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_settings(tmp_path, "{host: file, port: 1, served_name: file, engine: {model: org/model}}")
    monkeypatch.setenv("SONANT_PORT", "2")
    monkeypatch.setenv("SONANT_SERVED_NAME", "variable")
    settings = load_settings(config, {"served_name": "flag"})
    assert (settings.host, settings.port, settings.served_name) == ("file", 2, "flag")


def test_nested_settings_are_merged_by_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = write_settings(tmp_path, "engine: {model: org/model, threads: 1, talker: {slots: 3, context: 128}}")
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
def test_an_error_in_the_file_names_the_key(tmp_path: Path, text: str, key: str) -> None:
    with pytest.raises(SettingsError, match=key):
        load_settings(write_settings(tmp_path, text))


@pytest.mark.parametrize(
    ("name", "key"),
    [("SONANT_PROT", "SONANT_PROT"), ("SONANT_ENGINE__DEVIZE", "engine.devize"), ("SONANT_PORT", "port")],
)
def test_an_error_in_a_variable_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, key: str) -> None:
    monkeypatch.setenv(name, "tcp://10.0.0.1:80")
    with pytest.raises(SettingsError, match=key):
        load_settings(write_settings(tmp_path))


def test_an_error_shows_the_value_but_no_secret(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"port: .* less than or equal to 65535, got 70000"):
        load_settings(write_settings(tmp_path, PLAIN + "port: 70000"))
    with pytest.raises(SettingsError, match="api_key: ") as error:
        load_settings(write_settings(tmp_path, PLAIN + "api_key: 12345678"))
    assert "12345678" not in str(error.value)


def test_variables_of_the_client_scripts_are_no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SONANT_SERVER", "http://127.0.0.1:8000")
    assert load_settings(write_settings(tmp_path)).port == 8000


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.yaml"):
        load_settings(tmp_path / "nowhere.yaml")


def test_an_included_configuration_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_settings(Path("qwen3-0.6b")).all_models[0].name == "qwen3-tts-0.6b"
    with pytest.raises(SettingsError, match=r"qwen3-9b does not exist.*h200-1\.7b, pocket, qwen3-0\.6b"):
        load_settings(Path("qwen3-9b"))


def test_a_file_takes_precedence_over_an_included_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pocket").write_text("engine: {model: org/mine}")
    assert load_settings(Path("pocket")).all_models[0].name == "mine"


@pytest.mark.parametrize("model", ["./here", "here", "../beside/here"])
def test_a_model_folder_is_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    folder = tmp_path / "beside"
    (folder / "here").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    settings = load_settings(write_settings(folder, f"engine: {{model: {model}}}"))
    assert settings.engine.model == str(folder / "here")
    assert settings.all_models[0].name == "here"


def test_a_relative_model_path_may_not_exist_yet(tmp_path: Path) -> None:
    settings = load_settings(write_settings(tmp_path, "engine: {model: ../models/pocket}"))
    assert settings.engine.model == str(tmp_path.parent / "models" / "pocket")


def test_a_model_flag_is_relative_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load_settings(write_settings(tmp_path), {"engine": {"model": "mine"}}).engine.model == str(tmp_path / "mine")


def test_every_openai_voice_maps_to_a_speaker_of_the_shipped_checkpoint() -> None:
    settings = load_settings()
    speakers = json.loads(Path(settings.engine.model, "config.json").read_text())["talker_config"]["spk_id"]
    assert settings.voice_aliases.keys() == OPENAI_VOICES
    assert set(settings.voice_aliases.values()) <= speakers.keys()
    assert next(iter(speakers)) == "emma"


def test_a_hub_name_is_kept_and_gives_the_served_name(tmp_path: Path) -> None:
    settings = load_settings(write_settings(tmp_path))
    assert (settings.engine.model, settings.all_models[0].name) == ("org/model", "model")


def test_every_shipped_configuration_loads() -> None:
    shipped = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
    assert shipped
    for path in shipped:
        load_settings(path)


def test_reference_folders_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside").mkdir()
    monkeypatch.chdir(tmp_path)
    path = write_settings(tmp_path / "beside", PLAIN + "references: {folders: [recordings, /srv/voices]}")
    assert load_settings(path).references.folders == (tmp_path / "beside" / "recordings", Path("/srv/voices"))


def test_by_default_no_folder_and_no_private_host_is_allowed(tmp_path: Path) -> None:
    references = load_settings(write_settings(tmp_path)).references
    assert (references.folders, references.private_hosts, references.fetch_urls) == ((), (), True)


def test_refuses_an_invalid_private_host(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"references\.private_hosts"):
        load_settings(write_settings(tmp_path, PLAIN + "references: {private_hosts: ['http://media.intranet']}"))


@pytest.mark.parametrize("value", ["off", "'off'"])
def test_guards_are_off_with_and_without_quotes(tmp_path: Path, value: str) -> None:
    config = write_settings(tmp_path, f"{{engine: {{model: org/model}}, guards: {value}}}")
    assert load_settings(config).guards == "off"


@pytest.mark.parametrize("processes", [1, 2, 4, 6, 8, 16])
def test_connections_that_are_distributed_at_random_find_the_free_slots(tmp_path: Path, processes: int) -> None:
    engine = {"model": "org/model", "talker": {"slots": 256}}
    settings = load_settings(write_settings(tmp_path), {"http_processes": processes, "engine": engine})
    running = max_running(settings, settings.all_models[0])
    assert running <= 256
    generator = np.random.default_rng(1)
    busiest = generator.multinomial(256, [1 / processes] * processes, size=1000).max(axis=1)
    assert np.mean(busiest > running) < 0.03


@pytest.mark.parametrize("processes", [1, 4])
def test_the_load_is_one_when_the_requests_of_all_processes_take_all_slots(tmp_path: Path, processes: int) -> None:
    engine = {"model": "org/model", "talker": {"slots": 64}}
    settings = load_settings(write_settings(tmp_path), {"http_processes": processes, "engine": engine})
    admission = model_admission(settings, settings.all_models[0])
    with ExitStack() as tickets:
        for _ in range(64 // processes):
            tickets.enter_context(admission.ticket("a"))
        assert admission.load == pytest.approx(1.0)
