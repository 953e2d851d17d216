"""The page over plain HTTP from another host name, where browsers restrict some APIs."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OTHER_NAME
from tests.browser.playground import Playground
from tests.server.serving import Serving


@pytest.fixture
def plain_http(page: Page, pocket_server: Serving) -> Playground:
    """The page under a name that is not localhost."""
    page.goto(f"http://{OTHER_NAME}:{urlsplit(pocket_server.url).port}")
    assert not page.evaluate("isSecureContext")
    playground = Playground(page)
    expect(playground.status).to_have_text("Ready.")
    return playground


def test_the_page_speaks(plain_http: Playground) -> None:
    assert len(plain_http.speak_to_the_end())


def test_the_curl_command_can_be_copied(plain_http: Playground) -> None:
    line = plain_http.curl.inner_text()
    plain_http.page.get_by_role("button", name="Copy").click()
    expect(plain_http.page.get_by_role("button", name="Copied")).to_be_visible()
    plain_http.text.fill("")
    plain_http.text.focus()
    plain_http.page.keyboard.press("Control+V")
    expect(plain_http.text).to_have_value(line)


def test_the_page_explains_why_it_cannot_record(plain_http: Playground) -> None:
    plain_http.choose("Clone")
    plain_http.page.get_by_role("button", name="Record").click()
    expect(plain_http.failure).to_contain_text("Browsers record only on pages that are loaded over https")
