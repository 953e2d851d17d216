"""The page and a server that asks for a key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import POCKET
from tests.browser.playground import Playground, run
from tests.server.serving import Serving, write_config

KEY = "key-of-the-house"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(write_config(tmp_path_factory.mktemp("guarded"), POCKET), SONANT_API_KEY=KEY) as server:
        yield server.ready()


def test_it_asks_for_the_key_and_keeps_it_to_the_tab(page: Page, guarded: Serving, tmp_path: Path) -> None:
    page.goto(guarded.url)
    key = page.get_by_label("API key")
    expect(key).to_be_focused()
    playground = Playground(page)
    expect(playground.status).to_have_text("This server requires an API key.")
    key.fill("wrong")
    key.press("Enter")
    expect(playground.failure).to_contain_text("code invalid_api_key")
    key.fill(KEY)
    key.press("Enter")
    expect(playground.status).to_have_text("Ready.")
    expect(playground.failure).to_be_empty()
    expect(key).to_be_hidden()

    samples = playground.speak_to_the_end()
    line = playground.copied()
    assert KEY not in line
    assert run(line, tmp_path, SONANT_API_KEY=KEY, PATH="/usr/bin:/bin").tobytes() == samples.tobytes()

    playground.at(guarded)
    assert page.evaluate("[document.cookie, localStorage.length, location.href]") == ["", 0, f"{guarded.url}/"]
    other = page.context.new_page()
    other.goto(guarded.url)
    expect(other.get_by_label("API key")).to_be_focused()
