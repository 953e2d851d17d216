"""The API reference at /docs, which works without a network and runs only files of this server."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.server.serving import Serving


def test_the_reference_lists_the_api_and_sends_requests(page: Page, pocket_server: Serving) -> None:
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))
    page.goto(f"{pocket_server.url}/docs")
    expect(page.get_by_role("link", name="/v1/audio/speech", exact=True)).to_be_visible()
    operation = page.locator("#operations-default-health_health_get")
    operation.get_by_role("button").first.click()
    operation.get_by_role("button", name="Try it out").click()
    operation.get_by_role("button", name="Execute").click()
    expect(operation.locator(".live-responses-table")).to_contain_text('"status": "ok"')
    assert all(url.startswith((pocket_server.url, "data:")) for url in loaded), loaded
