"""Errors are shown in words, at their place."""

from __future__ import annotations

import re

from playwright.sync_api import BrowserContext, expect

from tests.browser.playground import LONG, Playground
from tests.server.serving import Serving
from tests.server.test_engine_loss import kill_engine


def test_a_refusal_is_announced_and_marks_its_field(playground: Playground) -> None:
    playground.speak("  ")
    expect(playground.failure).to_contain_text("input must have a visible character")
    expect(playground.failure).to_contain_text("status 400 · code invalid_value · field input · request page-")
    expect(playground.text).to_have_attribute("aria-invalid", "true")
    expect(playground.speak_button).to_be_enabled()
    playground.speak_to_the_end()
    expect(playground.failure).to_be_empty()
    expect(playground.text).not_to_have_attribute("aria-invalid", "true")


def test_an_invalid_field_is_revealed(playground: Playground) -> None:
    page = playground.page
    page.get_by_text("Options").click()
    page.get_by_label("Seed").fill("-2")
    page.get_by_text("Options").click()
    playground.speak()
    expect(playground.failure).to_contain_text("seed must be")
    expect(page.get_by_label("Seed")).to_be_visible()


def test_an_unreachable_server_is_reported(playground: Playground, context: BrowserContext) -> None:
    context.set_offline(True)
    playground.speak()
    expect(playground.failure).to_have_text("The server cannot be reached.")


def test_an_engine_crash_is_reported_and_the_page_recovers(playground: Playground, pocket_server: Serving) -> None:
    playground.speak(LONG)
    expect(playground.status).to_have_text("Speaking.")
    kill_engine(pocket_server)
    expect(playground.failure).to_contain_text("The speech ended early.")
    expect(playground.failure).to_contain_text(re.compile("code engine_.* · request page-"))
    expect(playground.speak_button).to_be_visible()
    playground.at(pocket_server)
    pocket_server.until_ready()
