"""The screenshots of the playground in the docs: ``python -m tests.browser.screenshots docs/images``.

Taken with the packaged Chromium, so that the fonts are the same on every machine.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.chromium import find_chromium
from tests.browser.conftest import FLAGS, POCKET
from tests.browser.playground import Playground
from tests.server.serving import Serving, write_config

DESKTOP = {"viewport": {"width": 800, "height": 760}, "device_scale_factor": 1.5}
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}
PLAYING = re.compile(r"^2\.\d of")


class ScreenshotTaker:
    """Takes screenshots of one server's page."""

    def __init__(self, browser: Browser, server: Serving, folder: Path) -> None:
        self._browser = browser
        self._server = server
        self._folder = folder

    def visit(self, **look: Any) -> Playground:
        """Open the page with other screen settings."""
        return Playground(self._browser.new_page(**look)).at(self._server)

    def take(self, playground: Playground, name: str) -> None:
        playground.page.screenshot(path=self._folder / f"playground-{name}.png")


def take_all(screenshots: ScreenshotTaker) -> None:
    """Take screenshots of the page: idle, playing, with an error, in dark mode, on a phone."""
    playground = screenshots.visit(**DESKTOP)
    screenshots.take(playground, "idle")
    playground.speak_button.click()
    expect(playground.figure("Played")).to_have_text(PLAYING)
    screenshots.take(playground, "speaking")

    playground = screenshots.visit(**{**DESKTOP, "viewport": {"width": 800, "height": 860}})
    playground.choose("Clone")
    short = {"name": "anna.wav", "mimeType": "audio/wav", "buffer": b"RIFF"}
    playground.page.get_by_label("Choose a file").set_input_files(short)
    playground.speak_button.click()
    expect(playground.failure).to_contain_text("ref_audio")
    screenshots.take(playground, "error")

    playground = screenshots.visit(**DESKTOP, color_scheme="dark")
    playground.choose("Blend")
    playground.page.get_by_label("Weight of adam").fill("30")
    playground.speak_button.click()
    expect(playground.figure("Played")).to_have_text(PLAYING)
    screenshots.take(playground, "dark")

    playground = screenshots.visit(**PHONE)
    playground.speak_button.click()
    expect(playground.figure("Played")).to_have_text(PLAYING)
    screenshots.take(playground, "phone")


def main(folder: Path) -> None:
    """Write the screenshots into ``folder``."""
    chromium = find_chromium(())
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as config,
        Serving(write_config(Path(config), POCKET)) as server,
        sync_playwright() as driver,
    ):
        variables = {**os.environ, **chromium.variables}
        browser = driver.chromium.launch(executable_path=chromium.executable, args=FLAGS, env=variables)
        take_all(ScreenshotTaker(browser, server.ready(), folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
