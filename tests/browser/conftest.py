"""A real browser, on the page of a real server that speaks with the checkpoint that ships."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.chromium import NoChromium, find_chromium
from tests.browser.playground import Playground
from tests.server.serving import ROOT, Serving, write_config

POCKET = ROOT / "models" / "pocket"
ELSEWHERE = "sonant.test"
FLAGS = [
    "--disable-gpu",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    f"--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1",
]
"""A microphone that hears a beep each second, and may be used; a name of this server that is not localhost."""

expect.set_options(timeout=20_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test may have to wait until the browser is fetched."""
    visits = [item for item in items if "browser" in getattr(item, "fixturenames", ())]
    for first in visits[:1]:
        first.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="package")  # its event loop must be gone where other tests begin: this folder is a package
def browser() -> Iterator[Browser]:
    try:
        chromium = find_chromium()
    except NoChromium as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no browser: {error}")
    with sync_playwright() as driver:
        yield driver.chromium.launch(
            executable_path=chromium.executable, args=FLAGS, env={**os.environ, **chromium.variables}
        )


@pytest.fixture(scope="package")
def speaking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server that can be listened to."""
    config = write_config(tmp_path_factory.mktemp("playground"), POCKET, own_names=[ELSEWHERE])
    with Serving(config) as server:
        yield server.ready()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A visitor whom the browser has never seen before."""
    with browser.new_context(permissions=["clipboard-read", "clipboard-write", "microphone"]) as context:
        context.set_default_timeout(20_000)
        context.add_init_script(path=Path(__file__).with_name("listening.js"))
        yield context


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A tab in which no script may fail, and nothing is kept from running that the page needs."""
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    yield page
    assert [fault for fault in faults if "Failed to load resource" not in fault] == []


@pytest.fixture
def playground(page: Page, speaking: Serving) -> Playground:
    """The page, loaded."""
    return Playground(page).at(speaking)
