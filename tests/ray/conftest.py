"""Real Ray nodes, which ``make test-ray`` installs."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ray.cluster import Cluster

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = importlib.util.find_spec("ray") is None
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.timeout(900))
            if missing:
                item.add_marker(pytest.mark.skip(reason="ray is not installed: make test-ray"))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster of one node that has room for three replicas.

    HAProxy's client timeout is so long that only a replica itself ends the request of a client that stops reading.
    """
    with Cluster(cpus=3, RAY_SERVE_HAPROXY_TIMEOUT_CLIENT_S="3600") as cluster:
        yield cluster
