"""The playground plays speech, shows its progress, and stops."""

from __future__ import annotations

import json
import re
from pathlib import Path
from subprocess import CalledProcessError

import pytest
import soundfile as sf
from playwright.sync_api import expect

from tests.browser.playground import AUDIBLE, LONG, Playground, run_curl
from tests.server.serving import Serving, busy


def test_speech_is_played_and_the_curl_command_gives_the_same(playground: Playground, tmp_path: Path) -> None:
    samples = playground.speak_to_the_end('It\'s "100 %" of\n$HOME, `too`.')
    expect(playground.figure("First audio after")).to_have_text(re.compile(r"^\d+ ms$"))
    seconds = f"{len(samples) / 24_000:.1f}"
    expect(playground.figure("Played")).to_have_text(f"{seconds} of {seconds} s")
    expect(playground.figure("Gaps")).to_have_text(re.compile(r"^\d+$"))
    assert run_curl(playground.copy_curl(), tmp_path).tobytes() == samples.tobytes()


def test_what_was_spoken_can_be_replayed_and_downloaded(playground: Playground, tmp_path: Path) -> None:
    page = playground.page
    replay = page.get_by_role("button", name="Replay")
    expect(replay).to_be_hidden()
    samples = playground.speak_to_the_end("One two, three.")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == "speech.wav"
    download.value.save_as(tmp_path / "speech.wav")
    saved, rate = sf.read(tmp_path / "speech.wav", dtype="int16")
    assert (saved.tobytes(), rate) == (samples.tobytes(), 24_000)

    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.evaluate("audioTap.samples = []")
    page.evaluate(
        """() => {
            window.lit = new Set();
            const note = () => document.querySelectorAll("#words .now").forEach((word) => lit.add(word.textContent));
            const changes = { subtree: true, childList: true, attributes: true };
            new MutationObserver(note).observe(document.getElementById("words"), changes);
        }"""
    )
    replay.click()
    expect(playground.status).to_have_text("Replaying.")
    expect(playground.status).to_have_text(re.compile("^Done: "))
    assert "two," in page.evaluate("[...lit]")
    assert playground.heard().tobytes() == samples.tobytes()
    assert not requests

    replay.click()
    expect(playground.stop_button).to_be_focused()
    page.keyboard.press("Escape")
    expect(playground.status).to_have_text("Stopped.")


def test_playback_starts_during_synthesis_and_stop_ends_both(playground: Playground, pocket_server: Serving) -> None:
    playground.speak(LONG)
    expect(playground.status).to_have_text("Speaking.")
    expect(playground.figure("Played")).to_have_text(re.compile(r"^(0\.[5-9]|1)"))
    expect(playground.figure("Buffer ahead")).to_have_text(re.compile(r"^\d+\.\d+ s"))
    assert playground.page.evaluate("audioTap.peak") > AUDIBLE
    assert busy(pocket_server.stats())
    playground.stop_button.click()
    expect(playground.status).to_have_text("Stopped.")
    expect(playground.speak_button).to_be_focused()
    pocket_server.until_idle()
    playground.page.evaluate("async () => { while (audioTap.level) await new Promise(requestAnimationFrame); }")


def test_the_curl_command_of_a_long_text_fits_into_a_shell(playground: Playground, tmp_path: Path) -> None:
    playground.text.fill("à" * 250_000)
    line = playground.copy_curl()
    with pytest.raises(CalledProcessError):
        run_curl(line, tmp_path)
    refusal = json.loads((tmp_path / "speech.wav").read_text())["error"]
    assert "at most 200000 characters, got 250000" in refusal["message"]


def test_the_page_can_be_used_by_keyboard(playground: Playground) -> None:
    keyboard = playground.page.keyboard
    playground.text.fill(LONG)
    keyboard.press("Control+Enter")
    expect(playground.status).to_have_text("Speaking.")
    keyboard.press("Escape")
    expect(playground.status).to_have_text("Stopped.")
    focused = []
    while "Speak" not in focused:
        keyboard.press("Tab")
        focused.append(playground.page.evaluate("(({ name, innerText }) => name || innerText)(document.activeElement)"))
    assert focused == ["kind", "voice", "Options", "Speak"]
    keyboard.press("Enter")
    expect(playground.status).to_have_text("Speaking.")
    keyboard.press("Enter")
    expect(playground.status).to_have_text("Stopped.")


def test_options_are_part_of_the_request(playground: Playground) -> None:
    page = playground.page
    page.get_by_text("Options").click()
    page.get_by_label("Name").select_option("george")
    page.get_by_label("Language").select_option("english")
    page.get_by_label("Speed").fill("1.25")
    page.get_by_label("Seed").fill("7")
    page.get_by_label("Sentence by sentence").check()
    page.get_by_role("textbox", name="Instructions").fill("Calm.")
    expected = {"voice": "george", "language": "english", "speed": 1.25, "seed": 7, "split": "sentence"}
    assert playground.request_body("Hello.") == {
        "input": "Hello.",
        "response_format": "pcm",
        "stream_format": "sse",
        "timestamp_granularities": ["word"],
        "instructions": "Calm.",
        **expected,
    }


def test_text_longer_than_the_checkpoint_speaks_well_is_split_without_being_asked(
    playground: Playground, pocket_server: Serving
) -> None:
    text = " ".join(f"This is sentence number {number} of a text that is quite long." for number in range(1, 5))
    playground.page.evaluate("audioTap.samples = []")
    body = playground.request_body(text)
    assert "split" not in body
    expect(playground.status).to_have_text(re.compile("^Done: "), timeout=60_000)
    expect(playground.page.locator("#words span")).to_have_count(len(text.split()))

    def spoken(split: str) -> bytes:
        fields = {"input": text, "response_format": "pcm", "voice": body["voice"], "seed": body["seed"], "split": split}
        with pocket_server.client() as client:
            return client.post("/v1/audio/speech", json=fields).raise_for_status().content

    assert playground.heard().tobytes() == spoken("auto") != spoken("none")


def test_the_words_are_shown_as_they_are_spoken(playground: Playground) -> None:
    playground.speak_to_the_end("One two, three and 4.")
    shown = playground.page.locator("#words span")
    expect(shown).to_have_text(["One", "two,", "three", "and", "four."])
    expect(playground.page.locator("#words .now")).to_have_count(0)


def test_each_word_lights_up_while_it_is_heard(playground: Playground) -> None:
    lit = playground.page.evaluate(
        """async () => {
            const { Words } = await import("/playground/words.js");
            const element = document.getElementById("words");
            const words = new Words(element);
            const lit = () => [...element.querySelectorAll(".now")].map((span) => span.textContent).join();
            words.push([{ word: "One", start: 0.1, end: 0.4 }, { word: "two,", start: 0.4, end: 0.8 }]);
            const at = (time) => { words.show(time); return lit(); };
            const first = [0, 0.1, 0.3, 0.4, 0.8].map(at);
            words.push([{ word: "three", start: 1, end: 1.2 }, { word: "four.", start: 1.2, end: 1.5 }]);
            return [...first, ...[0.9, 1.1, 1.6].map(at)];
        }"""
    )
    assert lit == ["", "One", "One", "two,", "", "", "three", ""]


def test_the_words_of_the_last_utterance_disappear(playground: Playground) -> None:
    playground.speak_to_the_end("One two.")
    playground.speak(LONG)
    expect(playground.page.locator("#words span").first).to_have_text("And")


def test_without_a_seed_each_utterance_has_a_new_one(playground: Playground) -> None:
    first = playground.request_body()["seed"]
    playground.page.keyboard.press("Escape")
    expect(playground.speak_button).to_be_visible()
    assert playground.request_body()["seed"] != first
