"""The Dockerfile and compose.yaml agree with each other, with the settings, and with how containers are stopped."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from server.settings import load_settings

ROOT = Path(__file__).parents[2]
INSTRUCTIONS = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
IMAGE_VARIABLES = dict(
    pair.split("=", 1) for line in INSTRUCTIONS if line.startswith("ENV ") for pair in line.split()[1:]
)
COPIED = {words[-1]: ROOT / words[-2] for line in INSTRUCTIONS if (words := line.split())[:1] == ["COPY"]}
"""Files and folders of the image that are copied from the repository."""
STOP_SECONDS = 10.0
"""How long ``docker stop`` waits before it kills a container."""
SUPERVISOR_SECONDS = 10.0
"""How long after ``drain_seconds`` the supervisor kills the HTTP process."""


def settings_of(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], config: Path | None = None) -> Any:
    for name, value in variables.items():
        if name.startswith("SONANT_"):
            monkeypatch.setenv(name, str(COPIED.get(value, value)))
    return load_settings(config)


@pytest.fixture
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    return found


def test_requests_may_finish_before_docker_kills_the_container(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(monkeypatch, IMAGE_VARIABLES)
    assert 0 < settings.limits.drain_seconds <= STOP_SECONDS - 3  # a second for the engine, and some for a slow machine
    assert settings.host == "0.0.0.0"


@pytest.mark.parametrize(
    "config", sorted(ROOT.glob("deploy/kubernetes/**/sonant.yaml")), ids=lambda path: path.parent.name
)
def test_a_configuration_file_sets_how_long_requests_may_finish(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = yaml.safe_load(config.read_text())["limits"]
    settings = settings_of(monkeypatch, IMAGE_VARIABLES, config)
    assert settings.limits.drain_seconds == limits["drain_seconds"]
    assert settings.limits.connection_share == limits["connection_share"]


def test_a_variable_overrides_the_defaults_of_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(monkeypatch, IMAGE_VARIABLES | {"SONANT_LIMITS__DRAIN_SECONDS": "30"})
    assert settings.limits.drain_seconds == 30


def test_the_health_check_reads_the_file_that_the_server_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(settings_of(monkeypatch, IMAGE_VARIABLES).address_file) == IMAGE_VARIABLES["SONANT_ADDRESS_FILE"]
    (check,) = (line for line in INSTRUCTIONS if line.startswith("HEALTHCHECK"))
    assert json.loads(check.partition("CMD")[2]) == ["python", "-m", "server.cli.health_check"]


def test_compose_waits_longer_than_the_server_takes_to_stop(
    services: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for service in services.values():
        settings = settings_of(monkeypatch, IMAGE_VARIABLES | service["environment"])
        grace = float(service["stop_grace_period"].removesuffix("s"))
        assert grace > settings.limits.drain_seconds + SUPERVISOR_SECONDS
        assert settings.allow_unauthenticated
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_compose_builds_targets_and_mounts_volumes_of_the_image(services: dict[str, Any]) -> None:
    targets = {match[1] for line in INSTRUCTIONS if (match := re.match(r"FROM .* AS (\S+)", line))}
    assert {service["build"]["target"] for service in services.values()} <= targets
    volumes = {path for line in INSTRUCTIONS if line.startswith("VOLUME ") for path in line.split()[1:]}
    for service in services.values():
        assert {mount.split(":")[1] for mount in service["volumes"]} == volumes


def test_a_release_changes_only_the_last_layer() -> None:
    """The order of the final layers: dependencies, checkpoint, code."""
    for target in ("cpu", "cuda"):
        start = next(number for number, line in enumerate(INSTRUCTIONS) if re.match(rf"FROM .* AS {target}$", line))
        stage = INSTRUCTIONS[start + 1 :]
        end = next((number for number, line in enumerate(stage) if line.startswith("FROM ")), len(stage))
        copies = [line.split()[-1] for line in stage[:end] if line.startswith("COPY ")]
        assert copies == ["/opt/sonant", "/opt/code/server/data/models/pocket", "/opt/code"]
