"""The application's configuration, checked by Ray's own schema, and the arguments of the application."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.ray_service import RAY_VERSION
from server.settings import SettingsError
from tests.server.serving import ROOT

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # in Ray's own classes

FOLDER = ROOT / "deploy" / "ray"


def build() -> Callable[[dict[str, Any]], Any]:
    from server.ray.application import build

    return build


def test_the_configuration_is_valid_and_names_things_that_exist() -> None:
    import ray
    from ray._common.utils import import_attr
    from ray.serve.schema import ServeDeploySchema

    config = ServeDeploySchema.model_validate(yaml.safe_load((FOLDER / "serve.yaml").read_text()))
    [application] = config.applications
    assert import_attr(application.import_path)(application.args)
    [deployment] = application.deployments
    assert deployment.name == "Sonant"
    policy = deployment.autoscaling_config["policy"]
    assert import_attr(policy["policy_function"])(**policy["policy_kwargs"])
    assert ray.__version__ == RAY_VERSION


def test_a_relative_path_is_resolved_where_the_application_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.yaml").touch()
    monkeypatch.chdir(tmp_path)
    application = build()({"config": "mine.yaml", "settings": '{"guards": "off"}'})
    deployment = application._bound_deployment
    assert deployment.init_args == (str(tmp_path / "mine.yaml"), {"guards": "off"})
    assert build()({"config": "pocket"})._bound_deployment.init_args == ("pocket", {})


@pytest.mark.parametrize("arguments", [{"confg": "pocket"}, {"settings": "{"}, {"settings": []}])
def test_invalid_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        build()(arguments)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "allow_unauthenticated: true"),
        ({"allow_unauthenticated": True, "grpc": {"port": 0}}, "grpc.port: a replica of Ray Serve has only"),
        ({"allow_unauthenticated": True, "wyoming": {"port": 0}}, "wyoming.port: a replica of Ray Serve has only"),
    ],
)
def test_settings_that_a_replica_cannot_have_are_refused(settings: dict[str, Any], message: str) -> None:
    from server.ray.application import replica_settings

    with pytest.raises(SettingsError, match=message):
        replica_settings("pocket", settings)


def test_uvloop_is_refused() -> None:
    import uvloop

    from server.ray.application import check_event_loop

    async def check() -> None:
        check_event_loop()

    asyncio.run(check())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, pytest.raises(SettingsError, match="uvloop"):
        runner.run(check())
