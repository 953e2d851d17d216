"""A real browser and the playground page of a real server with the shipped checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import soundfile as sf
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.chromium import NODE, NoChromium, find_chromium
from tests.browser.playground import Playground
from tests.server.serving import ROOT, Serving, write_config

POCKET = ROOT / "models" / "pocket"
OTHER_NAME = "sonant.test"
FLAGS = [
    "--disable-gpu",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    f"--host-resolver-rules=MAP {OTHER_NAME} 127.0.0.1",
]
"""A fake microphone, with permission to use it; a name of this server that is not localhost."""

expect.set_options(timeout=20_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first browser test may have to wait for the download of the browser."""
    visits = [item for item in items if "browser" in getattr(item, "fixturenames", ())]
    for first in visits[:1]:
        first.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="package")  # the browser's event loop must end before tests of other packages start
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Chromium, with a microphone that hears a recording of a voice, again and again."""
    try:
        chromium = find_chromium()
    except NoChromium as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no browser: {error}")
    microphone = tmp_path_factory.mktemp("microphone") / "voice.wav"
    sf.write(microphone, *sf.read(ROOT / "docs" / "samples" / "ava-pocket.ogg"))
    os.environ.setdefault("PLAYWRIGHT_NODEJS_PATH", str(NODE))
    flags = [*FLAGS, f"--use-file-for-fake-audio-capture={microphone}"]
    with sync_playwright() as driver:
        yield driver.chromium.launch(
            executable_path=chromium.executable, args=flags, env={**os.environ, **chromium.variables}
        )


@pytest.fixture(scope="package")
def pocket_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with the pocket checkpoint."""
    config = write_config(tmp_path_factory.mktemp("playground"), POCKET, own_names=[OTHER_NAME])
    with Serving(config) as server:
        yield server.ready()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A new browser profile."""
    with browser.new_context(permissions=["clipboard-read", "clipboard-write", "microphone"]) as context:
        context.set_default_timeout(20_000)
        context.add_init_script(path=Path(__file__).with_name("audio_tap.js"))
        yield context


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A tab; asserts that no script failed and nothing was blocked by the browser."""
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    yield page
    assert [fault for fault in faults if "Failed to load resource" not in fault] == []


@pytest.fixture
def playground(page: Page, pocket_server: Serving) -> Playground:
    """The loaded page."""
    return Playground(page).at(pocket_server)
