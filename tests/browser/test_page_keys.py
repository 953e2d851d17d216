"""The page with a server that requires a key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import POCKET
from tests.browser.playground import Playground, run_curl
from tests.server.serving import ScriptedServing, Serving, write_config

KEY = "some-key"


@pytest.fixture(scope="module")
def with_key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    config = write_config(tmp_path_factory.mktemp("with-key"), POCKET)
    with ScriptedServing(config, SONANT_API_KEY=KEY) as server:
        yield server.ready()


def test_the_page_asks_for_the_key_and_keeps_it_in_the_tab(page: Page, with_key: Serving, tmp_path: Path) -> None:
    page.goto(with_key.url)
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
    line = playground.copy_curl()
    assert KEY not in line
    assert run_curl(line, tmp_path, SONANT_API_KEY=KEY, PATH="/usr/bin:/bin").tobytes() == samples.tobytes()

    playground.at(with_key)
    assert page.evaluate("[document.cookie, localStorage.length, location.href]") == ["", 0, f"{with_key.url}/"]
    other = page.context.new_page()
    other.goto(with_key.url)
    expect(other.get_by_label("API key")).to_be_focused()
