"""The page as visitors use it."""

from __future__ import annotations

import io
import re
import subprocess
from pathlib import Path
from typing import Any, Self

import numpy as np
import soundfile as sf
from numpy.typing import NDArray
from playwright.sync_api import Locator, Page, expect

from tests.server.serving import TIMEOUT, Serving

HELLO = "Hello there."
LONG = "And so it went on, from one day to the next, and nobody could say when it would end. " * 40
AUDIBLE = 0.05


class Playground:
    """The elements of the page, found by their accessible names, and the actions of a visitor."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.text = page.get_by_label("Text", exact=True)
        self.speak_button = page.get_by_role("button", name="Speak")
        self.stop_button = page.get_by_role("button", name="Stop", exact=True)
        self.status = page.get_by_role("status")
        self.failure = page.get_by_role("alert")
        self.curl = page.get_by_role("region", name="Command")

    def at(self, server: Serving) -> Self:
        self.page.goto(server.url)
        expect(self.status).to_have_text("Ready.")
        return self

    def figure(self, name: str) -> Locator:
        return self.page.locator("dl > div", has_text=name).locator("dd")

    def choose(self, kind: str) -> None:
        """Select "Choose", "Clone" or "Blend"."""
        self.page.get_by_label(kind, exact=True).check()

    def speak(self, text: str = HELLO) -> None:
        self.text.fill(text)
        self.speak_button.click()

    def speak_to_the_end(self, text: str = HELLO) -> NDArray[np.int16]:
        """Speak and wait for the end; return the samples passed to Web Audio."""
        self.page.evaluate("audioTap.samples = []")
        self.speak(text)
        expect(self.status).to_have_text(re.compile("^Done: "))
        assert self.page.evaluate("audioTap.peak") > AUDIBLE
        return self.heard()

    def heard(self) -> NDArray[np.int16]:
        """Return the samples passed to Web Audio."""
        return np.array(self.page.evaluate("audioTap.samples.map((sample) => 32768 * sample)"), np.int16)

    def request_body(self, text: str = HELLO) -> dict[str, Any]:
        """The body of the request that the page sends."""
        with self.page.expect_request("**/v1/audio/speech") as request:
            self.speak(text)
        body: dict[str, Any] = request.value.post_data_json
        return body

    def copy_curl(self) -> str:
        """Copy the curl command with its button."""
        self.page.get_by_role("button", name="Copy").click()
        expect(self.page.get_by_role("button", name="Copied")).to_be_visible()
        line: str = self.page.evaluate("navigator.clipboard.readText()")
        return line


def run_curl(line: str, folder: Path, **variables: str) -> NDArray[np.int16]:
    """Run a curl command in a shell; return the samples it saves."""
    (folder / "line.sh").write_text(line)
    subprocess.run(["sh", "line.sh"], cwd=folder, env=variables or None, check=True, timeout=TIMEOUT)
    samples, rate = sf.read(io.BytesIO((folder / "speech.wav").read_bytes()), dtype="int16")
    assert rate == 24_000
    return samples
