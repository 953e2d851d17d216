"""The page offers what the checkpoint supports."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.playground import Playground
from tests.server.serving import Serving, write_config
from tests.support.random_checkpoint import RandomCheckpoints


def test_voice_design_shows_a_description_field(page: Page, checkpoints: RandomCheckpoints, tmp_path: Path) -> None:
    with Serving(write_config(tmp_path, checkpoints["1b7-voice_design"])) as server:
        playground = Playground(page).at(server.ready())
        expect(page.get_by_role("radio")).to_have_count(0)
        page.get_by_role("textbox", name="Voice description").fill("A deep and calm voice.")
        body = playground.request_body()
        assert body.pop("seed") >= 0
        assert body.pop("stream_format") == "sse"
        assert body.pop("timestamp_granularities") == ["word"]
        assert body == {"input": "Hello there.", "instructions": "A deep and calm voice.", "response_format": "pcm"}


def test_a_base_checkpoint_offers_only_cloning(page: Page, checkpoints: RandomCheckpoints, tmp_path: Path) -> None:
    with Serving(write_config(tmp_path, checkpoints["0b6-base"])) as server:
        Playground(page).at(server.ready())
        for kind in ("Choose", "Clone", "Blend"):
            expect(page.get_by_label(kind, exact=True)).to_be_enabled(enabled=kind == "Clone")
        expect(page.get_by_label("Clone", exact=True)).to_be_checked()
