"""Ray nodes on this machine, with the environment and the application of ``deploy/ray``."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
import psutil
import yaml

from scripts.ray_service import environment
from tests.server.serving import ROOT, TIMEOUT

START_TIMEOUT = 300.0
"""Timeout for nodes and replicas, which start many processes: more than a minute each on two busy cores."""
KEY = "sk-ray-test"
_SERVE_YAML = ROOT / "deploy" / "ray" / "serve.yaml"
_REPLICA_PORTS = range(30000, 31001)
_NODE = "RAY_TEST_NODE"
"""Environment variable that marks the processes of a node."""
_POLL_S = 0.1
T = TypeVar("T")


@dataclass(frozen=True)
class Replica:
    """A running replica. node: the id of its node."""

    id: str
    pid: int
    node: str

    @property
    def url(self) -> str:
        """Where it can be asked without the load balancer."""
        listening = (each for each in psutil.Process(self.pid).net_connections("tcp") if each.status == "LISTEN")
        port = next(each.laddr.port for each in listening if each.laddr.port in _REPLICA_PORTS)
        return f"http://127.0.0.1:{port}"

    @property
    def engine(self) -> psutil.Process:
        """Its engine process."""
        children = psutil.Process(self.pid).children()
        return next(each for each in children if any("engine.worker" in word for word in each.cmdline()))

    def stats(self) -> dict[str, Any]:
        """Its ``/ready``."""
        stats: dict[str, Any] = httpx.get(f"{self.url}/ready", timeout=TIMEOUT).raise_for_status().json()
        return stats


class Node:
    """A node: the processes that ``ray start --block`` runs. It has ``cpus`` CPUs for replicas."""

    def __init__(self, variables: dict[str, str], log: Path, address: str, cpus: int, *options: str) -> None:
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", f"--num-cpus={cpus}"]
        command += [f"--node-ip-address={address}", "--dashboard-agent-listen-port=0", "--disable-usage-stats"]
        command += [f"--object-store-memory={100 * 1024 * 1024}", *options]
        self.log = log
        self._name = f"{variables['RAY_AUTH_TOKEN']}-{address}"
        marked = {**variables, _NODE: self._name}
        with log.open("w") as output:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=marked, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def processes(self) -> list[psutil.Process]:
        """All processes of the node, also those whose parent has ended, such as HAProxy after a restart."""
        return _marked(self._name)

    def kill(self) -> None:
        """Kill all processes at once."""
        while processes := self.processes():
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            self._process.wait(TIMEOUT)
            psutil.wait_procs(processes, TIMEOUT)


class Cluster:
    """A cluster whose head node has HAProxy. ``variables`` override those of ``ray.env``.

    HAProxy listens on all addresses of the machine, so only the head node has one.
    """

    def __init__(self, cpus: int, **variables: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # short: paths of sockets have a limit
        self._gcs, self._dashboard, self.port, fallback, metrics, stats = _free_ports(6)
        self.url = f"http://127.0.0.1:{self.port}"
        self.headers = {"Authorization": f"Bearer {KEY}"}
        (self.folder / "keys").write_text(f"{KEY}\n")
        token = secrets.token_hex(32)
        self._api = httpx.Client(
            base_url=f"http://127.0.0.1:{self._dashboard}",
            headers={"Authorization": f"Bearer {token}"},
            timeout=TIMEOUT,
        )
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SONANT_", "RAY_"))}
        self._variables = {
            **inherited,
            "PYTHONPATH": str(ROOT),
            **environment(),
            "RAY_AUTH_TOKEN": token,
            "RAY_SERVE_HAPROXY_NBTHREAD": "1",
            "RAY_SERVE_FALLBACK_PROXY_HTTP_PORT": str(fallback),
            "RAY_SERVE_HAPROXY_METRICS_PORT": str(metrics),
            "RAY_SERVE_HAPROXY_STATS_PORT": str(stats),
            "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(self.folder),
            "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "3",
            **{name: str(self.folder / file) for name, file in _HAPROXY_FILES.items()},
            **variables,
        }
        self.nodes: list[Node] = []
        self._started = 0
        head = ("--head", f"--port={self._gcs}", "--dashboard-host=127.0.0.1", f"--temp-dir={self.folder / 'ray'}")
        self._add(cpus, *head, f"--dashboard-port={self._dashboard}", "--include-dashboard=true")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in reversed(self.nodes):
            node.kill()
        self._api.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def add_node(self, cpus: int) -> Node:
        """Start another node."""
        return self._add(cpus, f"--address=127.0.0.2:{self._gcs}")

    def _add(self, cpus: int, *options: str) -> Node:
        self._started += 1
        address = f"127.0.0.{1 + self._started}"  # Ray replaces 127.0.0.1 by an address of the machine
        log = self.folder / f"node-{self._started}.log"
        self.nodes.append(Node(self._variables, log, address, cpus, *options))
        return self.nodes[-1]

    def processes(self) -> list[psutil.Process]:
        """All processes of all nodes, also what killed nodes have left."""
        return _marked(self._variables["RAY_AUTH_TOKEN"])

    def client(self) -> httpx.Client:
        """Return a client of HAProxy that has the API key."""
        return httpx.Client(base_url=self.url, headers=self.headers, timeout=TIMEOUT)

    def deploy(self, replicas: int | dict[str, Any], **settings: Any) -> None:
        """Deploy ``serve.yaml`` with other ``settings`` of the server. Does not wait.

        replicas: their number, or the configuration of the autoscaler.
        """
        config = yaml.safe_load(_SERVE_YAML.read_text())
        config["proxy_location"] = "HeadOnly"
        config["http_options"]["port"] = self.port
        [application] = config["applications"]
        [deployment] = application["deployments"]
        shipped = application["args"]["settings"]
        own: dict[str, Any] = {
            "keys_file": str(self.folder / "keys"),
            "guards": "off",
            "log_format": "text",
            "engine": {"device": "cpu", "threads": 1},
            "voices": {"folder": str(self.folder / "voices")},
        }
        limits = {**shipped["limits"], **settings.pop("limits", {})}
        own["engine"] |= settings.pop("engine", {})
        application["args"]["settings"] = {**own, "limits": limits, **settings}
        deployment["ray_actor_options"] = {"num_cpus": 1}
        if isinstance(replicas, int):
            deployment["num_replicas"] = replicas
            del deployment["autoscaling_config"]
        else:
            deployment["autoscaling_config"] |= replicas
        self.until(lambda: self._call("PUT", config), "Ray's API does not answer")

    def until_running(self, replicas: int) -> list[Replica]:
        """Wait until the deployment has ``replicas`` healthy replicas and no others, and HAProxy knows one."""
        running = self.until(lambda: self._running(replicas), f"there are not {replicas} replicas")
        with self.client() as client:
            self.until(lambda: _is_ready(client) or None, "HAProxy does not know a replica")
        return running

    def until_failed(self) -> str:
        """Wait until the deployment has failed, and return why."""

        def failed() -> str | None:
            application = self._application()
            return str(application) if application.get("status") == "DEPLOY_FAILED" else None

        return self.until(failed, "the deployment has not failed")

    def replicas(self) -> list[Replica]:
        """Return the replicas that run now, without those that start or stop."""
        running = (each for each in self._all_replicas() if each["state"] == "RUNNING")
        return [Replica(each["replica_id"], each["pid"], each["node_id"]) for each in running]

    def _running(self, count: int) -> list[Replica] | None:
        settled = self._application().get("status") == "RUNNING" and len(self._all_replicas()) == count
        running = self.replicas()
        return running if settled and len(running) == count else None

    def _all_replicas(self) -> list[dict[str, Any]]:
        replicas: list[dict[str, Any]] = (
            self._application().get("deployments", {}).get("Sonant", {}).get("replicas", [])
        )
        return replicas

    def _application(self) -> dict[str, Any]:
        details = self._call("GET") or {}
        application: dict[str, Any] = details.get("applications", {}).get("sonant", {})
        return application

    def _call(self, method: str, body: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """Call Ray's API for applications. Return its response, or None while it cannot be reached."""
        try:
            response = self._api.request(method, "/api/serve/applications/", json=body)
        except httpx.TransportError:
            return None
        if response.status_code != 200:
            assert response.status_code >= 500, response.text
            return None
        return response.json() if method == "GET" else {}

    def until(self, result: Callable[[], T | None], reason: str) -> T:
        """Wait until ``result`` returns something, and return it. reason: for the error."""
        deadline = time.monotonic() + START_TIMEOUT
        while (found := result()) is None:
            if time.monotonic() > deadline or not self.nodes[0].alive:
                raise TimeoutError(f"{reason}: {self._application()}\n{self.nodes[0].log.read_text()[-4000:]}")
            time.sleep(_POLL_S)
        return found


_HAPROXY_FILES = {
    "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": "haproxy.cfg",
    "RAY_SERVE_HAPROXY_SOCKET_PATH": "admin.sock",
    "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": "server-state",
    "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH": "metrics.sock",
}
"""Files of HAProxy that are in a fixed folder by default."""


def _marked(prefix: str) -> list[psutil.Process]:
    """Return the processes of the nodes whose names begin with ``prefix``.

    Ray's agents overwrite their environment with their title. They are children of processes that keep theirs.
    """
    found: set[psutil.Process] = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(_NODE, "").startswith(prefix):
                found.add(process)
                found.update(process.children())
    return list(found)


def _is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/ready").status_code == 200
    except httpx.TransportError:
        return False


def _free_ports(count: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports
