"""The voice options: a stored voice, a blend, a file, the microphone."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser.playground import HELLO, Playground, run_curl
from tests.server.recordings import tone, wav
from tests.server.serving import SPEECH, Serving


@pytest.fixture(scope="module")
def recording_of_speech(pocket_server: Serving) -> bytes:
    """A recording of a voice."""
    with pocket_server.client() as client:
        body = {"input": "This is how I sound today.", "voice": "emma", "seed": 1, "response_format": "wav"}
        return client.post(SPEECH, json={**body, "stream": False}).raise_for_status().content


def test_a_blend_of_two_voices(playground: Playground, tmp_path: Path) -> None:
    playground.choose("Blend")
    page = playground.page
    first, second = page.get_by_role("listitem").all()
    second.get_by_role("combobox").select_option("george")
    page.get_by_label("Weight of george").fill("25")
    expect(first.get_by_role("slider")).to_have_attribute("aria-valuetext", "67 %")
    samples = playground.speak_to_the_end()
    assert '"voices":[{"voice":"emma","weight":0.5},{"voice":"george","weight":0.25}]' in playground.curl.inner_text()
    assert run_curl(playground.copy_curl(), tmp_path).tobytes() == samples.tobytes()


def test_voices_can_be_added_to_and_removed_from_a_blend(playground: Playground) -> None:
    playground.choose("Blend")
    page = playground.page
    page.get_by_role("button", name="Add a voice").click()
    rows = page.get_by_role("listitem")
    expect(rows).to_have_count(3)
    expect(rows.last.get_by_role("combobox")).to_be_focused()
    for _ in range(2):
        rows.first.get_by_role("button", name="Remove").click()
    expect(rows).to_have_count(1)
    expect(page.get_by_role("button", name="Add a voice")).to_be_focused()
    expect(page.get_by_role("button", name="Remove")).to_be_hidden()
    assert playground.request_body()["voices"] == [{"voice": "adam", "weight": 0.5}]


@pytest.mark.parametrize("transcript", ["This is how I sound today.", ""], ids=["in context", "embedding only"])
def test_a_file_is_cloned(playground: Playground, recording_of_speech: bytes, tmp_path: Path, transcript: str) -> None:
    recording = tmp_path / "it's me.wav"
    recording.write_bytes(recording_of_speech)
    playground.choose("Clone")
    playground.page.get_by_label("Choose a file").set_input_files(recording)
    playground.page.get_by_label("Transcript of the recording").fill(transcript)
    expect(playground.page.get_by_label("Recording to clone")).to_be_visible()
    expect(playground.page.get_by_role("link", name="Save")).to_be_hidden()
    samples = playground.speak_to_the_end()
    assert ("ref_text" in playground.curl.inner_text()) == bool(transcript)
    assert run_curl(playground.copy_curl(), tmp_path).tobytes() == samples.tobytes()


def test_a_clone_is_kept_under_a_name(
    playground: Playground, pocket_server: Serving, recording_of_speech: bytes, tmp_path: Path
) -> None:
    page = playground.page
    playground.choose("Clone")
    page.get_by_role("button", name="Keep voice").click()
    expect(playground.failure).to_contain_text("No recording to clone")
    (tmp_path / "me.wav").write_bytes(recording_of_speech)
    page.get_by_label("Choose a file").set_input_files(tmp_path / "me.wav")
    name = page.get_by_label("Keep the clone as")
    name.press("Enter")
    expect(playground.failure).to_contain_text("field name")
    expect(name).to_have_attribute("aria-invalid", "true")
    name.fill("kept")
    name.press("Enter")
    expect(playground.status).to_have_text("The voice is kept as kept.")
    expect(playground.failure).to_be_empty()
    assert playground.request_body()["voice"] == "kept"
    expect(playground.speak_button).to_be_visible()
    playground.choose("Blend")
    page.get_by_role("listitem").first.get_by_role("combobox").select_option("kept")
    httpx.delete(f"{pocket_server.url}/v1/audio/voices/kept").raise_for_status()


def test_a_microphone_recording_is_cloned(playground: Playground, tmp_path: Path) -> None:
    page = playground.page
    playground.choose("Clone")
    page.get_by_role("button", name="Record", exact=True).click()
    expect(page.get_by_text(re.compile(r"^3\.\d\d s$"))).to_be_visible()
    page.get_by_role("button", name="Stop recording").click()
    expect(page.get_by_role("button", name="Record", exact=True)).to_be_focused()
    samples = playground.speak_to_the_end()
    with page.expect_download() as download:
        page.get_by_role("link", name="Save").click()
    download.value.save_as(tmp_path / download.value.suggested_filename)
    assert run_curl(playground.copy_curl(), tmp_path).tobytes() == samples.tobytes()


def test_errors_about_a_recording_are_shown(playground: Playground, tmp_path: Path) -> None:
    playground.choose("Clone")
    playground.speak()
    expect(playground.failure).to_contain_text("No recording to clone")
    (tmp_path / "short.wav").write_bytes(wav(tone(0.5)))
    playground.page.get_by_label("Choose a file").set_input_files(tmp_path / "short.wav")
    playground.speak()
    expect(playground.failure).to_contain_text("at least 1 s")
    expect(playground.failure).to_contain_text("reference_too_short")


def test_stored_voices_are_offered(playground: Playground, pocket_server: Serving) -> None:
    with pocket_server.client() as client:
        blend = {"name": "both", "voices": [{"voice": "ava"}, {"voice": "adam"}]}
        client.post("/v1/audio/voices/blend", json=blend).raise_for_status()
    playground.at(pocket_server).page.get_by_label("Name").select_option("both")
    assert playground.request_body()["voice"] == "both"
    expect(playground.speak_button).to_be_visible()
    httpx.delete(f"{pocket_server.url}/v1/audio/voices/both").raise_for_status()
    playground.speak(HELLO)
    expect(playground.failure).to_contain_text("voice 'both' does not exist")
    expect(playground.failure).to_contain_text("status 404 · code voice_not_found · field voice")
