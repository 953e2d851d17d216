"""Speech played with Media Source and as the source of an audio element, with the code of the documentation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page

from tests.browser.conftest import POCKET
from tests.docs.blocks import ROOT, blocks_of
from tests.server.serving import ScriptedServing, Serving, write_config

PLAY = next(block.code for block in blocks_of(ROOT / "docs/guides/web-pages.md") if "function play" in block.code)
FIELDS = {"input": "Hello there.", "voice": "ava", "seed": 7}
TO_THE_END = """
  const end = new Promise((ended, failed) => {
    audio.addEventListener("ended", ended);
    audio.addEventListener("error", () => failed(new Error(audio.error.message)));
  });
"""
MUTED = "const audio = new Audio(); audio.muted = true; // a script may start it without a click\n" + TO_THE_END


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with ScriptedServing(write_config(tmp_path_factory.mktemp("media"), POCKET, get_speech=True)) as server:
        yield server.ready()


@pytest.fixture
def plain_page(context: BrowserContext, server: Serving) -> Page:
    """A page of the server without scripts."""
    page = context.new_page()
    page.goto(f"{server.url}/health")
    return page


@pytest.fixture(scope="module")
def seconds(server: Serving) -> float:
    """The length of the speech."""
    with server.client() as client:
        return len(client.post("/v1/audio/speech", json={**FIELDS, "response_format": "pcm"}).content) / 48_000


@pytest.mark.parametrize(("kind", "media_type"), [("mp3", "audio/mpeg"), ("aac", "audio/aac")])
def test_media_source_plays_a_stream(plain_page: Page, seconds: float, kind: str, media_type: str) -> None:
    played = plain_page.evaluate(
        f"async ([fields, type]) => {{ {PLAY} {MUTED} await play(audio, fields, type); await end; "
        "return audio.currentTime; }",
        [{**FIELDS, "response_format": kind}, media_type],
    )
    assert played == pytest.approx(seconds, abs=0.3)


@pytest.mark.parametrize("kind", ["mp3", "opus", "aac", "flac", "wav"])
def test_an_audio_element_plays_a_url(plain_page: Page, seconds: float, kind: str) -> None:
    played = plain_page.evaluate(
        f"async (fields) => {{ {MUTED} audio.src = '/v1/audio/speech?' + new URLSearchParams(fields); "
        "await audio.play(); await end; return audio.currentTime; }",
        {**FIELDS, "response_format": kind},
    )
    assert played == pytest.approx(seconds, abs=0.3)


@pytest.mark.parametrize("kind", ["mp3", "opus", "aac", "flac", "wav"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_saved_file_is_decoded_and_played(plain_page: Page, seconds: float, kind: str, stream: bool) -> None:
    decoded, played = plain_page.evaluate(
        f"""async (fields) => {{
            const headers = {{ "Content-Type": "application/json" }};
            const body = JSON.stringify(fields);
            const file = await (await fetch("/v1/audio/speech", {{ method: "POST", headers, body }})).blob();
            const decoded = await new OfflineAudioContext(1, 1, 24000).decodeAudioData(await file.arrayBuffer());
            {MUTED}
            const reader = new FileReader();
            await new Promise((loaded) => {{ reader.onload = loaded; reader.readAsDataURL(file); }});
            audio.src = reader.result;
            await audio.play();
            await end;
            return [decoded.duration, audio.currentTime];
        }}""",
        {**FIELDS, "response_format": kind, "stream": stream},
    )
    assert decoded == pytest.approx(seconds, abs=0.3)
    assert played == pytest.approx(seconds, abs=0.3)


def test_a_refusal_is_an_error_of_the_example(plain_page: Page) -> None:
    message = plain_page.evaluate(
        f"async () => {{ {PLAY} return await play(new Audio(), {{ input: '' }}).catch((error) => error.message); }}"
    )
    assert message.startswith("input must have")
