"""Real servers on real sockets, speaking with a small random checkpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from tests.server.openai_sdk import KINDS, Sdk, close_sdk, sdk_for
from tests.server.serving import Serving, write_config
from tests.support.random_checkpoint import write_checkpoint


@pytest.fixture(scope="session")
def pocket(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with built-in voices and cloning."""
    folder = tmp_path_factory.mktemp("checkpoints") / "pocket"
    write_checkpoint(folder, "pocket")
    return folder


@pytest.fixture(scope="session")
def serving(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """The server most tests share.

    ``uvloop`` is a module that fails on import: the server must use asyncio's event loop even if uvloop is installed.
    """
    stub = tmp_path_factory.mktemp("uvloop")
    (stub / "uvloop.py").write_text("raise RuntimeError('uvloop is not supported')\n")
    folder = tmp_path_factory.mktemp("config")
    config = write_config(
        folder,
        pocket,
        address_file=str(folder / "address"),
        voice_aliases={"alloy": "vivian", "nova": "Ryan", "echo": "speaker of another checkpoint"},
        default_voice="serena",
        own_names=["voice.intranet"],
    )
    with Serving(config, PYTHONPATH=str(stub)) as server:
        yield server.ready()


@pytest.fixture
def client(serving: Serving) -> Iterator[httpx.Client]:
    """An HTTP client for the shared server."""
    with serving.client() as client:
        yield client


@pytest.fixture(params=KINDS)
async def sdk(request: pytest.FixtureRequest, serving: Serving) -> AsyncIterator[Sdk]:
    """Each client of the openai package in turn, connected to the shared server."""
    client = sdk_for(request.param, serving)
    yield client
    await close_sdk(client)
