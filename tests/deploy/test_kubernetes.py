"""The manifests in deploy/kubernetes: valid by the schemas of Kubernetes, consistent with each other and the server."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from server.http.body_budget import BodyBudget
from server.live.sessions import Sessions
from server.served_model import EngineStatus
from server.settings import load_settings
from server.synthesis.admission import Admission
from server.telemetry.metrics import Metrics
from tests.deploy.balancers import haproxy_program
from tests.server.serving import ROOT
from tests.support.scripted_server import PacedEngine

MANIFESTS = ROOT / "deploy" / "kubernetes"
KUSTOMIZATIONS = sorted(MANIFESTS.rglob("kustomization.yaml"))
VERSIONS = ("1.30", "1.37")
CUSTOM = {
    "HTTPRoute": "gateway.networking.k8s.io/v1",
    "ScaledObject": "keda.sh/v1alpha1",
    "ServiceMonitor": "monitoring.coreos.com/v1",
    "PrometheusRule": "monitoring.coreos.com/v1",
}
"""Kinds whose schemas are not part of Kubernetes."""


def documents(path: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def resources_of(kustomization: Path) -> Iterator[Path]:
    """The resource files of a kustomization, with those of the kustomizations that it includes."""
    for name in documents(kustomization)[0].get("resources", ()):
        path = (kustomization.parent / name).resolve()
        if path.is_dir():
            yield from resources_of(path / "kustomization.yaml")
        else:
            yield path


RESOURCES = sorted({path for each in KUSTOMIZATIONS for path in resources_of(each)})
OBJECTS = [(path, each) for path in RESOURCES for each in documents(path)]


def find(kind: str, name: str = "sonant") -> dict[str, Any]:
    found = [each for path, each in OBJECTS if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    assert len(found) == 1
    return found[0]


SERVERS = find("Deployment")
GPU = documents(MANIFESTS / "overlays" / "gpu" / "servers.yaml")[0]
CONFIGURATIONS = {"base": SERVERS, "overlays/gpu": GPU}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("path", "manifest"), OBJECTS, ids=lambda each: each["kind"] if isinstance(each, dict) else "")
def test_a_manifest_follows_the_schema(path: Path, manifest: dict[str, Any], version: str) -> None:
    if manifest["kind"] in CUSTOM:
        assert manifest["apiVersion"] == CUSTOM[manifest["kind"]]
        return
    kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("kustomization", KUSTOMIZATIONS, ids=lambda path: path.parent.name)
def test_a_kustomization_names_files_that_exist_and_patches_objects_that_exist(kustomization: Path) -> None:
    fields = documents(kustomization)[0]
    is_component = "components" in kustomization.parts
    assert (fields["kind"] == "Component") == is_component
    patches = [each["path"] for each in fields.get("patches", ())]
    generated = [name for each in fields.get("configMapGenerator", ()) for name in each["files"]]
    for name in [*fields.get("resources", ()), *fields.get("components", ()), *patches, *generated]:
        assert (kustomization.parent / name).exists(), name
    for name in patches:
        for patch in documents(kustomization.parent / name):
            target = find(patch["kind"], patch["metadata"]["name"])
            containers = {each["name"] for each in target["spec"]["template"]["spec"]["containers"]}
            assert {each["name"] for each in patch["spec"]["template"]["spec"]["containers"]} <= containers


def test_every_file_belongs_to_a_kustomization() -> None:
    used = {*KUSTOMIZATIONS, *RESOURCES}
    for kustomization in KUSTOMIZATIONS:
        fields = documents(kustomization)[0]
        names = [each["path"] for each in fields.get("patches", ())]
        names += [name for each in fields.get("configMapGenerator", ()) for name in each["files"]]
        used |= {kustomization.parent / name for name in names}
    assert {path for path in MANIFESTS.rglob("*") if path.is_file()} == used


@pytest.mark.parametrize("folder", CONFIGURATIONS)
def test_the_configuration_is_valid_and_fits_the_pod(folder: str) -> None:
    settings = load_settings(MANIFESTS / folder / "sonant.yaml")
    pod = SERVERS["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert (
        settings.port
        == container["ports"][0]["containerPort"]
        == find("Service", "sonant-servers")["spec"]["ports"][0]["port"]
    )
    mounts = {each["mountPath"] for each in container["volumeMounts"]}
    assert str(settings.keys_file.parent) in mounts
    assert "/etc/sonant/sonant.yaml" in container["args"]
    grace = CONFIGURATIONS[folder]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    sleep = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert grace > sleep + settings.limits.drain_seconds + 10


def test_selectors_match_labels_and_ports_have_names() -> None:
    deployments = [each for _, each in OBJECTS if each["kind"] == "Deployment"]
    for deployment in deployments:
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert deployment["spec"]["selector"]["matchLabels"] == labels
    for _, each in OBJECTS:
        if each["kind"] in ("Service", "PodDisruptionBudget"):
            selector = each["spec"]["selector"]
            selected = [
                deployment
                for deployment in deployments
                if selector.get("matchLabels", selector) == deployment["spec"]["template"]["metadata"]["labels"]
            ]
            assert len(selected) == 1, each
        if each["kind"] == "Service":
            ports = selected[0]["spec"]["template"]["spec"]["containers"][0]["ports"]
            assert each["spec"]["ports"][0]["targetPort"] in {port["name"] for port in ports}
    monitor = find("ServiceMonitor")["spec"]
    service = find("Service", "sonant-servers")
    assert monitor["selector"]["matchLabels"] == service["metadata"]["labels"]
    assert monitor["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]


@pytest.mark.parametrize("path", ["components/ingress/ingress.yaml", "components/gateway/route.yaml"])
def test_traffic_enters_through_the_load_balancer(path: str) -> None:
    rule = documents(MANIFESTS / path)[0]["spec"]["rules"][0]
    backend = rule["backendRefs"][0] if "backendRefs" in rule else rule["http"]["paths"][0]["backend"]["service"]
    service = find("Service", backend["name"])
    assert service["metadata"]["labels"]["app.kubernetes.io/component"] == "load-balancer"
    assert backend["port"] in (service["spec"]["ports"][0]["port"], {"name": service["spec"]["ports"][0]["name"]})


def test_the_load_balancer_has_the_tested_settings(tmp_path: Path) -> None:
    """HAProxy accepts the configuration, which differs from the tested one in how it finds the servers."""
    text = (MANIFESTS / "base" / "haproxy.cfg").read_text()
    tested = (ROOT / "deploy" / "haproxy" / "haproxy.cfg").read_text()
    finding = re.compile(
        r"server|resolvers|hold|parse-resolv|accepted_payload|inter|stats socket|retries|#|http-request return"
    )
    lines, tested_lines = (
        {line.partition("#")[0].strip() for line in each.splitlines() if not finding.match(line.strip())}
        for each in (text, tested)
    )
    lines, tested_lines = ({each for each in found if "default-server" not in each} for found in (lines, tested_lines))
    assert lines == tested_lines
    path = tmp_path / "haproxy.cfg"
    path.write_text(text.replace(" hash-key addr", ""))  # HAProxy 3.0; the tests have 2.6 or newer
    done = subprocess.run(
        [haproxy_program(), "-c", "-f", path], env={"SONANT_SERVERS": "localhost"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stdout + done.stderr


def exported() -> set[str]:
    """The names of all samples that a server with a trained model exports."""
    metrics = Metrics({"pocket": Admission(8, 8)}, Sessions(8, 1.0), BodyBudget(1024, 1.0))
    stats = PacedEngine.last_stats.fget(None)  # type: ignore[attr-defined]
    page, _ = metrics.page("", [EngineStatus(True, {"crashed": 0}, stats, {})])
    names: set[str] = set()
    for family in text_string_to_metric_families(page.decode()):
        total = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"], "summary": ["_sum", "_count"]}
        names |= {family.name + suffix for suffix in total.get(family.type, [""])}
    return names


def expressions() -> Iterator[str]:
    """The PromQL of alerts, of the dashboard and of the autoscalers."""
    for group in find("PrometheusRule")["spec"]["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    dashboard = json.loads((MANIFESTS / "components" / "monitoring" / "sonant.json").read_text())
    yield from (target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    yield from (trigger["metadata"]["query"] for trigger in find("ScaledObject")["spec"]["triggers"])
    yield from (metric["pods"]["metric"]["name"] for metric in find("HorizontalPodAutoscaler")["spec"]["metrics"])


def test_alerts_dashboard_and_autoscalers_use_metrics_that_exist() -> None:
    used = {name for each in expressions() for name in re.findall(r"\b(?:sonant|process)_\w+", each)}
    assert "sonant_load_ratio" in used
    assert used <= exported()


def test_autoscalers_scale_the_servers() -> None:
    for kind in ("HorizontalPodAutoscaler", "ScaledObject"):
        target = find(kind)["spec"]["scaleTargetRef"]
        assert find(target["kind"], target["name"]) is SERVERS
