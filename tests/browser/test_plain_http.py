"""The page on another machine of the network, without https: a browser gives it less there."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import ELSEWHERE
from tests.browser.playground import Playground
from tests.server.serving import Serving


@pytest.fixture
def elsewhere(page: Page, speaking: Serving) -> Playground:
    """The page by a name that is not this machine's."""
    page.goto(f"http://{ELSEWHERE}:{urlsplit(speaking.url).port}")
    assert not page.evaluate("isSecureContext")
    playground = Playground(page)
    expect(playground.status).to_have_text("Ready.")
    return playground


def test_it_speaks(elsewhere: Playground) -> None:
    assert len(elsewhere.speak_to_the_end())


def test_the_curl_line_is_copied(elsewhere: Playground) -> None:
    line = elsewhere.curl.inner_text()
    elsewhere.page.get_by_role("button", name="Copy").click()
    expect(elsewhere.page.get_by_role("button", name="Copied")).to_be_visible()
    elsewhere.text.fill("")
    elsewhere.text.focus()
    elsewhere.page.keyboard.press("Control+V")
    expect(elsewhere.text).to_have_value(line)


def test_why_it_cannot_record_is_told(elsewhere: Playground) -> None:
    elsewhere.choose("Clone")
    elsewhere.page.get_by_role("button", name="Record").click()
    expect(elsewhere.failure).to_contain_text("Browsers record only on pages that are loaded over https")
