"""Servers that implement the protocols of object stores, each with a bucket ``voices``."""

from __future__ import annotations

import base64
import hashlib
import hmac
import importlib.util
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate

import httpx
import pytest
from obstore.store import AzureStore, S3Store

from tests.server.serving import ROOT, TIMEOUT

_ACCOUNT = "devstoreaccount1"
_ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The published account of Azurite."""
_AZURE_VERSION = "2021-08-06"


@contextmanager
def s3_server() -> Iterator[str]:
    """Run moto, which implements S3, and yield its address. Skips the test if it is not installed."""
    if importlib.util.find_spec("moto") is None:
        pytest.skip("the package moto[s3,server] is not installed")
    port = _free_port()
    command = [sys.executable, "-m", "moto.server", "-p", str(port)]
    with _running(command, lambda: httpx.put(f"http://127.0.0.1:{port}/voices").raise_for_status()):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def azure_server() -> Iterator[str]:
    """Run Azurite, which implements Azure's blob storage, and yield its address. Skips the test if it is missing."""
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("azurite-blob, of the npm package azurite, is not in PATH")
    port = _free_port()
    address = f"http://127.0.0.1:{port}/{_ACCOUNT}"
    command = [program, "--blobPort", str(port), "--inMemoryPersistence", "--skipApiVersionCheck", "--silent"]
    with _running(command, lambda: _create_container(address)):
        yield address


def open_bucket_at(kind: str, address: str, prefix: str) -> S3Store | AzureStore:
    """Return the bucket ``voices`` of ``s3_server`` (kind s3) or of ``azure_server`` (kind azure), without retries."""
    if kind == "s3":
        return S3Store(
            "voices",
            prefix=prefix,
            endpoint=address,
            access_key_id="test",
            secret_access_key="test",
            region="us-east-1",
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )
    return AzureStore(
        "voices",
        prefix=prefix,
        endpoint=address,
        account_name=_ACCOUNT,
        account_key=_ACCOUNT_KEY,
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )


def azure_environment(address: str) -> dict[str, str]:
    """Return the environment variables with which obstore finds ``azure_server``."""
    return {
        "AZURE_STORAGE_ACCOUNT_NAME": _ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": _ACCOUNT_KEY,
        "AZURE_ENDPOINT": address,
        "AZURE_ALLOW_HTTP": "true",
    }


def _create_container(address: str) -> None:
    """Create the container ``voices`` with a request signed by Azure's scheme "Shared Key"."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _AZURE_VERSION}
    lines = ["PUT", *[""] * 11, *(f"{name}:{value}" for name, value in headers.items())]
    lines += [f"/{_ACCOUNT}/{_ACCOUNT}/voices", "restype:container"]
    key = base64.b64decode(_ACCOUNT_KEY)
    signature = base64.b64encode(hmac.digest(key, "\n".join(lines).encode(), hashlib.sha256)).decode()
    authorization = {"Authorization": f"SharedKey {_ACCOUNT}:{signature}"}
    httpx.put(f"{address}/voices?restype=container", headers=headers | authorization).raise_for_status()


@contextmanager
def _running(command: list[str], prepare: Callable[[], object]) -> Iterator[None]:
    """Run a server, and call ``prepare`` as soon as it accepts connections."""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            deadline = time.monotonic() + TIMEOUT
            while True:
                try:
                    prepare()
                    break
                except httpx.TransportError:
                    assert server.poll() is None and time.monotonic() < deadline
                    time.sleep(0.1)
            yield
        finally:
            server.terminate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
