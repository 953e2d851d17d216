"""The files in deploy/ray: generated from each other, and valid. tests/ray runs them on Ray nodes."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from scripts.ray_service import RAY_VERSION, environment, manifest
from server.settings import load_settings
from tests.deploy.balancers import haproxy_program
from tests.server.serving import ROOT

FOLDER = ROOT / "deploy" / "ray"
SERVE = yaml.safe_load((FOLDER / "serve.yaml").read_text())
VERSIONS = ("1.30", "1.37")


def documents() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / "rayservice.yaml").read_text()))


SERVICE, POLICY = documents()
CLUSTER = SERVICE["spec"]["rayClusterConfig"]
GROUPS = {"head": CLUSTER["headGroupSpec"], "workers": CLUSTER["workerGroupSpecs"][0]}


def container(group: str) -> dict[str, Any]:
    [only] = GROUPS[group]["template"]["spec"]["containers"]
    return dict(only)


def test_the_manifest_is_up_to_date() -> None:
    path = FOLDER / "rayservice.yaml"
    assert path.read_text() == manifest(), f"python -m scripts.ray_service > {path.relative_to(ROOT)}"


def test_the_manifest_has_the_structure_of_a_ray_service() -> None:
    assert (SERVICE["apiVersion"], SERVICE["kind"]) == ("ray.io/v1", "RayService")
    assert SERVICE["spec"].keys() == {"serveConfigV2", "rayClusterConfig"}
    assert yaml.safe_load(SERVICE["spec"]["serveConfigV2"]) == SERVE
    assert CLUSTER["rayVersion"] == RAY_VERSION
    assert CLUSTER["authOptions"] == {"mode": "token"}
    for group in GROUPS.values():
        assert all(isinstance(each, str) for each in group["rayStartParams"].values())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("group", GROUPS)
def test_pods_follow_the_schema(group: str, version: str) -> None:
    template = GROUPS[group]["template"]
    metadata = {"name": group, **template["metadata"]}
    kubernetes_validate.validate(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}, version, strict=True
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_the_network_policy_follows_the_schema_and_selects_all_pods(version: str) -> None:
    kubernetes_validate.validate(POLICY, version, strict=True)
    for group in GROUPS.values():
        assert group["template"]["metadata"]["labels"] == POLICY["spec"]["podSelector"]["matchLabels"]
    open_to_all = [each["ports"] for each in POLICY["spec"]["ingress"] if "from" not in each]
    assert open_to_all == [[{"port": SERVE["http_options"]["port"]}]]


@pytest.mark.parametrize("group", GROUPS)
def test_all_nodes_have_the_environment(group: str) -> None:
    variables = {each["name"]: each["value"] for each in container(group)["env"]}
    assert variables == {name: value for name, value in environment().items() if name != "RAY_AUTH_MODE"}


def test_a_shell_and_the_script_read_the_same_environment() -> None:
    names = shlex.join(environment())
    script = f"set -a; . {FOLDER / 'ray.env'}; for name in {names}; do printf '%s=%s\\0' $name \"${{!name}}\"; done"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert dict(each.split("=", 1) for each in done.stdout.split("\0") if each) == environment()


def test_the_settings_are_valid_and_the_key_file_is_mounted() -> None:
    arguments = SERVE["applications"][0]["args"]
    settings = load_settings(Path(arguments["config"]), arguments["settings"])
    assert settings.keys_file is not None
    for group in GROUPS:
        assert str(settings.keys_file.parent) in {each["mountPath"] for each in container(group)["volumeMounts"]}
    hard_stop = float(environment()["RAY_SERVE_HAPROXY_HARD_STOP_AFTER_S"])
    assert hard_stop > settings.limits.live_seconds
    assert settings.limits.restart_wait_seconds == 0


def test_the_load_balancer_accepts_the_options_and_uses_those_of_the_tested_configuration(tmp_path: Path) -> None:
    """Ray writes the variable into its own configuration, as the value of ``balance`` in the defaults section."""
    variables = environment()
    options = variables["RAY_SERVE_HAPROXY_BALANCE_ALGORITHM"]
    tested = (ROOT / "deploy" / "haproxy" / "haproxy.cfg").read_text()
    for line in options.splitlines():
        option = line.strip()
        if not re.match("no option splice|timeout|http-error", option):
            assert option.replace('"', '\\"') in tested, option
    path = tmp_path / "haproxy.cfg"
    path.write_text(f"""\
global
    maxconn 100
    tune.bufsize {variables["RAY_SERVE_HAPROXY_TUNE_BUFSIZE"]}
defaults
    mode http
    timeout connect 5s
    timeout client 1h
    timeout server 1h
    option splice-request
    option splice-response
    retry-on {variables["RAY_SERVE_HAPROXY_RETRY_ON"]}
    retries {variables["RAY_SERVE_HAPROXY_RETRIES"]}
    balance {options}
frontend http_frontend
    bind 127.0.0.1:8000
    default_backend sonant
backend sonant
    server one 127.0.0.1:30000 check inter {variables["RAY_SERVE_HAPROXY_HEALTH_CHECK_INTER"]}
""")
    done = subprocess.run([haproxy_program(), "-c", "-f", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stdout + done.stderr
