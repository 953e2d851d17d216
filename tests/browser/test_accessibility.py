"""The page is accessible: for screen readers, in dark mode, on phones."""

from __future__ import annotations

from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from tests.browser.playground import Playground
from tests.server.serving import Serving

KINDS = ("Choose", "Clone", "Blend")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(playground: Playground, scheme: Literal["light", "dark"]) -> None:
    page = playground.page
    page.emulate_media(color_scheme=scheme)
    page.get_by_text("Options").click()
    playground.speak(" ")
    page.get_by_role("alert").get_by_role("paragraph").first.wait_for()
    for kind in KINDS:
        playground.choose(kind)
        report = Axe().run(page)
        assert report.violations_count == 0, report.generate_report()


@pytest.mark.parametrize("width", [320, 390])
def test_nothing_is_wider_than_a_phone_screen(playground: Playground, width: int) -> None:
    page = playground.page
    page.set_viewport_size({"width": width, "height": 700})
    page.get_by_text("Options").click()
    for kind in KINDS:
        playground.choose(kind)
        assert page.evaluate("document.documentElement.scrollWidth") == width


def test_keys_are_explained_only_where_there_is_a_keyboard(
    playground: Playground, browser: Browser, pocket_server: Serving
) -> None:
    hint = "Enter speaks"
    expect(playground.page.get_by_text(hint)).to_be_visible()
    phone = Playground(browser.new_page(is_mobile=True, has_touch=True)).at(pocket_server)
    expect(phone.page.get_by_text(hint)).to_be_hidden()
    phone.page.close()


def test_the_page_has_a_dark_mode(playground: Playground) -> None:
    page = playground.page
    backgrounds = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        backgrounds.append(page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))
        backgrounds[-1] = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert backgrounds == ["rgb(246, 245, 242)", "rgb(19, 21, 19)"]
