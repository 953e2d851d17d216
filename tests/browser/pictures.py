"""The pictures of the playground in the docs: ``python -m tests.browser.pictures docs/images``.

Taken in the package's Chromium, so that those of every machine have the same letters.
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

DESK = {"viewport": {"width": 800, "height": 760}, "device_scale_factor": 1.5}
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}
SPEAKING = re.compile(r"^2\.\d of")


class Album:
    """Takes pictures of the page of one server."""

    def __init__(self, browser: Browser, server: Serving, folder: Path) -> None:
        self._browser = browser
        self._server = server
        self._folder = folder

    def visit(self, **look: Any) -> Playground:
        """The page on another screen."""
        return Playground(self._browser.new_page(**look)).at(self._server)

    def take(self, playground: Playground, name: str) -> None:
        playground.page.screenshot(path=self._folder / f"playground-{name}.png")


def take_all(album: Album) -> None:
    """Idle, speaking, in error, in the dark, on a telephone."""
    playground = album.visit(**DESK)
    album.take(playground, "idle")
    playground.speak_button.click()
    expect(playground.figure("Played")).to_have_text(SPEAKING)
    album.take(playground, "speaking")

    playground = album.visit(**{**DESK, "viewport": {"width": 800, "height": 860}})
    playground.choose("Clone")
    short = {"name": "anna.wav", "mimeType": "audio/wav", "buffer": b"RIFF"}
    playground.page.get_by_label("Choose a file").set_input_files(short)
    playground.speak_button.click()
    expect(playground.failure).to_contain_text("ref_audio")
    album.take(playground, "error")

    playground = album.visit(**DESK, color_scheme="dark")
    playground.choose("Blend")
    playground.page.get_by_label("Weight of adam").fill("30")
    playground.speak_button.click()
    expect(playground.figure("Played")).to_have_text(SPEAKING)
    album.take(playground, "dark")

    playground = album.visit(**PHONE)
    playground.speak_button.click()
    expect(playground.figure("Played")).to_have_text(SPEAKING)
    album.take(playground, "phone")


def main(folder: Path) -> None:
    """Write the pictures into ``folder``."""
    chromium = find_chromium(())
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as config,
        Serving(write_config(Path(config), POCKET)) as server,
        sync_playwright() as driver,
    ):
        variables = {**os.environ, **chromium.variables}
        browser = driver.chromium.launch(executable_path=chromium.executable, args=FLAGS, env=variables)
        take_all(Album(browser, server.ready(), folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
