"""Prints the manifest of a RayService for KubeRay: ``python -m scripts.ray_service > deploy/ray/rayservice.yaml``.

Its environment and its application are those of ``ray.env`` and ``serve.yaml``, so that they cannot diverge.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from textwrap import indent

import yaml

RAY_VERSION = "2.60.0"
_FOLDER = Path(__file__).resolve().parents[1] / "deploy" / "ray"
_OPERATOR_SETS = frozenset({"RAY_AUTH_MODE"})
"""Variables that the operator sets, because of ``authOptions``."""

_MANIFEST = """\
# Generated from ray.env and serve.yaml: python -m scripts.ray_service > deploy/ray/rayservice.yaml
# For KubeRay 1.5.1 or newer. docs/guides/ray-serve.md explains it.
apiVersion: ray.io/v1
kind: RayService
metadata:
  name: sonant
  labels: {{app.kubernetes.io/name: sonant}}
spec:
  serveConfigV2: |
{serve}
  rayClusterConfig:
    rayVersion: {version}
    authOptions: {{mode: token}}
    enableInTreeAutoscaling: true
    headGroupSpec:
      rayStartParams:
        num-cpus: "0" # no replicas
      template:
        metadata:
          labels: {{app.kubernetes.io/name: sonant, app.kubernetes.io/component: ray}}
        spec:
          automountServiceAccountToken: true # the autoscaler of Ray changes the number of workers
          containers:
            - name: ray-head
              image: sonant-ray
              env: &environment
{environment}
              ports:
                - {{name: gcs-server, containerPort: 6379}}
                - {{name: dashboard, containerPort: 8265}}
                - {{name: client, containerPort: 10001}}
                - {{name: serve, containerPort: 8000}}
              resources:
                requests: {{cpu: "2", memory: 4Gi}}
                limits: {{memory: 8Gi}}
              volumeMounts: &mounts
                - {{name: keys, mountPath: /etc/sonant-keys, readOnly: true}}
          volumes: &volumes
            - name: keys
              secret: {{secretName: sonant-keys}}
    workerGroupSpecs:
      - groupName: servers
        replicas: 2
        minReplicas: 2
        maxReplicas: 8
        rayStartParams: {{}}
        template:
          metadata:
            labels: {{app.kubernetes.io/name: sonant, app.kubernetes.io/component: ray}}
          spec:
            automountServiceAccountToken: false
            containers:
              - name: ray-worker
                image: sonant-ray
                env: *environment
                ports:
                  - {{name: serve, containerPort: 8000}}
                resources: # for GPUs, add nvidia.com/gpu: "1" to both
                  requests: {{cpu: "2", memory: 4Gi}}
                  limits: {{cpu: "2", memory: 8Gi}}
                readinessProbe: # HAProxy has at least one replica
                  httpGet: {{path: /-/healthz, port: serve}}
                  periodSeconds: 2
                  timeoutSeconds: 2
                  failureThreshold: 2
                volumeMounts: *mounts
            volumes: *volumes
---
# Only HAProxy is open to clients. The ports of the replicas (30000 to 31000) believe X-Forwarded-For.
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: sonant-ray
spec:
  podSelector:
    matchLabels: {{app.kubernetes.io/name: sonant, app.kubernetes.io/component: ray}}
  policyTypes: [Ingress]
  ingress:
    - from:
        - podSelector:
            matchLabels: {{app.kubernetes.io/name: sonant, app.kubernetes.io/component: ray}}
        - namespaceSelector: {{}}
          podSelector:
            matchLabels: {{app.kubernetes.io/name: kuberay-operator}}
    - ports:
        - {{port: 8000}}
"""


def environment() -> dict[str, str]:
    """Return the variables of ``ray.env``, which is a file for a shell."""
    words = shlex.split((_FOLDER / "ray.env").read_text(), comments=True)
    return dict(word.split("=", 1) for word in words)


def manifest() -> str:
    """Return the text of ``rayservice.yaml``."""
    variables = [{"name": name, "value": value} for name, value in environment().items() if name not in _OPERATOR_SETS]
    lines = yaml.safe_dump(variables, sort_keys=False, width=1000)
    serve = "".join(line for line in (_FOLDER / "serve.yaml").read_text().splitlines(keepends=True) if line[0] != "#")
    return _MANIFEST.format(
        version=RAY_VERSION, serve=indent(serve.rstrip(), 4 * " "), environment=indent(lines.rstrip(), 16 * " ")
    )


if __name__ == "__main__":
    print(manifest(), end="")
