"""The text of requests goes through the text front end: the engine receives what should be spoken."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import soundfile as sf

from tests.server.commands import FAST_START, run_command
from tests.server.live_client import CONFIG, receive_error, receive_utterance, send_messages, send_text, session
from tests.server.serving import SPEECH, Serving, speech, write_config
from tests.server.test_bad_input import check
from tests.server.test_outcomes import get_outcome

ENGLISH = {"language": "english"}


@pytest.fixture(scope="module")
def english(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server whose checkpoint reads English only and was trained on normalized text."""
    folder = shutil.copytree(pocket, tmp_path_factory.mktemp("english") / "checkpoint")
    profile = {"text_steps": ["unicode", "markup", "emoji", "normalize"], "languages": ["english"]}
    profile["live_text"] = "sentences"
    (folder / "sonant.json").write_text(json.dumps(profile))
    pronunciations = {"SQL": "sequel", "nginx": "engine x", "O'Neil": "o neel", "D\u2019Arcy": "darcy"}
    text = {"pronunciations": pronunciations, "name_emoji": True}
    with Serving(write_config(folder.parent, folder, text=text)) as server:
        yield server.ready()


def spoken(client: httpx.Client, text: str, **fields: Any) -> bytes:
    """The audio of ``text``: equal audio means equal text, because the seed is the same."""
    answer = client.post(SPEECH, json=speech(input=text, **fields))
    assert answer.status_code == 200, answer.text
    return answer.content


def as_it_is(client: httpx.Client, text: str, **fields: Any) -> bytes:
    return spoken(client, text, normalize=False, **fields)


def test_markup_and_emoji_never_reach_the_engine(client: httpx.Client) -> None:
    plain = as_it_is(client, "Hello there, this is a test.")
    assert spoken(client, "Hello there, **this** is a *test*. 🎉") == plain
    assert spoken(client, "<p>Hello there, this is a <b>test</b>.</p>") == plain
    assert spoken(client, "Hello\u200b there,\u00a0this is a test.") == plain
    assert as_it_is(client, "Hello there, **this** is a *test*. 🎉") != plain


def test_without_a_profile_numbers_are_spoken_as_they_are(client: httpx.Client) -> None:
    assert spoken(client, "It costs $5.", **ENGLISH) == as_it_is(client, "It costs $5.", **ENGLISH)


def test_normalize_reads_numbers_as_words(client: httpx.Client) -> None:
    words = as_it_is(client, "It costs five dollars.", **ENGLISH)
    assert spoken(client, "It costs $5.", normalize=True, **ENGLISH) == words


def test_normalize_recognizes_english_but_leaves_other_languages_alone(client: httpx.Client) -> None:
    assert spoken(client, "It costs $5.", normalize=True) == as_it_is(client, "It costs five dollars.")
    assert spoken(client, "Das kostet 5 Euro.", normalize=True) == as_it_is(client, "Das kostet 5 Euro.")


def test_without_normalize_control_characters_are_removed(client: httpx.Client) -> None:
    assert as_it_is(client, "Hello\x07 there.\x00") == as_it_is(client, "Hello there.")


def test_a_request_can_bring_pronunciations(client: httpx.Client) -> None:
    said = as_it_is(client, "Ask sequel about Nguyen.")
    assert spoken(client, "Ask SQL about Nguyen.", pronunciations={"SQL": "sequel"}) == said
    assert as_it_is(client, "Ask SQL about Nguyen.", pronunciations={"SQL": "sequel"}) == said


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"normalize": "yes"}, "normalize"),
        ({"pronunciations": ["SQL"]}, "pronunciations"),
        ({"pronunciations": {"SQL": 1}}, "pronunciations"),
        ({"pronunciations": {"SQL": " "}}, "pronunciations"),
        ({"pronunciations": {"x" * 101: "y"}}, "pronunciations"),
        ({"pronunciations": {"SQL": "y" * 201}}, "pronunciations"),
        ({"pronunciations": {str(number): "y" for number in range(201)}}, "pronunciations"),
    ],
)
def test_an_invalid_choice_is_named(client: httpx.Client, fields: dict[str, Any], param: str) -> None:
    answer = client.post(SPEECH, json=speech(**fields))
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_pronunciations_cannot_make_a_short_text_endless(client: httpx.Client) -> None:
    answer = client.post(SPEECH, json=speech(input="a " * 2000, pronunciations={"a": "b" * 200}))
    check(answer, 400, "input", "string_above_max_length")


@pytest.mark.parametrize("text", ["🎉🎉", "**  **\n\n---", "<br/>", "[pause 1s]", "...", "\u200b!"])
def test_a_text_of_which_nothing_remains_is_refused(client: httpx.Client, text: str) -> None:
    answer = client.post(SPEECH, json=speech(input=text))
    check(answer, 400, "input", "nothing_to_speak")
    assert "nothing of input can be spoken" in answer.json()["error"]["message"]


def test_a_script_that_the_checkpoint_cannot_read_is_refused(client: httpx.Client, english: Serving) -> None:
    assert spoken(client, "今日は。")
    with english.client() as reader:
        answer = reader.post(SPEECH, json=speech(input="Say 今日は."))
        check(answer, 400, "input", "unsupported_script")
        message = answer.json()["error"]["message"]
        assert message == "input must be in a script that this model can read, got Han ('今'): it reads english"
        check(reader.post(SPEECH, json=speech(input="今日", normalize=False)), 400, "input", "unsupported_script")
        assert spoken(reader, "Say 今日は.", pronunciations={"今日は": "hello"})


def test_the_profile_of_the_checkpoint_selects_the_steps(client: httpx.Client, english: Serving) -> None:
    with english.client() as reader:
        assert spoken(reader, "It costs **$5**.") == as_it_is(client, "It costs five dollars.")
        assert spoken(reader, "It costs $5.", normalize=False) == as_it_is(client, "It costs $5.")


def test_settings_have_pronunciations_and_name_emoji(client: httpx.Client, english: Serving) -> None:
    with english.client() as reader:
        assert spoken(reader, "Ask SQL and Nginx.") == as_it_is(client, "Ask sequel and engine x.")
        own = {"SQL": "ess cue ell"}
        assert spoken(reader, "Ask SQL now.", pronunciations=own) == as_it_is(client, "Ask ess cue ell now.")
        own = {"O\u2019Neil": "onyell", "D'Arcy": "dee arcy"}
        said = as_it_is(client, "Ask onyell or dee arcy.")
        assert spoken(reader, "Ask O'Neil or D'Arcy.", pronunciations=own) == said
        assert spoken(reader, "Ask O\u2019Neil or D\u2019Arcy.", pronunciations=own) == said
        assert spoken(reader, "Great 🎉") == as_it_is(client, "Great party popper.")


def test_the_outcome_says_what_was_spoken(serving: Serving, client: httpx.Client) -> None:
    for name, text in (("changed-text", "**Hello** there. 🎉"), ("same-text", "Hello there.")):
        client.post(SPEECH, json=speech(input=text), headers={"X-Request-Id": name})
    serving.wait_for("id=same-text ")
    changed, same = (get_outcome(client, name) for name in ("changed-text", "same-text"))
    assert (changed["changed"], changed["spoken"]) == ("markup,emoji", "Hello there.")
    assert changed["characters"] == len("**Hello** there. 🎉")
    assert not {"changed", "spoken"} & same.keys()
    line = serving.wait_for("id=changed-text .*").group()
    assert "changed=markup,emoji" in line
    assert "Hello" not in line


def test_the_outcome_has_only_the_beginning_of_a_long_text(serving: Serving, client: httpx.Client) -> None:
    client.post(SPEECH, json=speech(input="**One** two. " * 50), headers={"X-Request-Id": "long-text"})
    serving.wait_for("id=long-text ")
    assert get_outcome(client, "long-text")["spoken"] == ("One two. " * 50)[:300]


def test_items_of_a_batch_are_read_alike(client: httpx.Client) -> None:
    texts = ["**Hello** there.", "🎉", "Hello SQL."]
    items = [speech(input=text) for text in texts]
    body = {"items": items, "pronunciations": {"SQL": "sequel"}}
    first, second, third = client.post(f"{SPEECH}/batch", json=body).raise_for_status().json()["results"]
    assert base64.b64decode(first["audio_data"]) == as_it_is(client, "Hello there.")
    assert second["error"]["code"] == "nothing_to_speak"
    assert base64.b64decode(third["audio_data"]) == as_it_is(client, "Hello sequel.")


def live(serving: Serving, deltas: list[str], name: str | None = None, **fields: Any) -> bytes:
    with session(serving, name, **fields) as socket:
        for delta in deltas:
            send_text(socket, delta)
        send_messages(socket, {"type": "input.done"})
        audio, events = receive_utterance(socket)
    assert events[-1]["type"] == "audio.done", events
    return audio


def test_live_text_is_read_alike(serving: Serving, client: httpx.Client) -> None:
    plain = live(serving, ["Hello there, this is a test."], normalize=False)
    assert live(serving, ["Hello there, **th", "is** is", " a *te", "st*. 🎉"], "live-text") == plain
    serving.wait_for("id=live-text.0 ")
    assert get_outcome(client, "live-text.0")["spoken"] == "Hello there, this is a test."
    words = live(serving, ["Ask sequel, it costs five dollars."], normalize=False, **ENGLISH)
    fields: dict[str, Any] = {"normalize": True, "pronunciations": {"SQL": "sequel"}, **ENGLISH}
    assert live(serving, list("Ask SQL, it costs $5."), **fields) == words


def test_live_text_of_whole_sentences_sounds_as_in_another_request(english: Serving) -> None:
    text = "Hello there, this is a test."
    body = {name: value for name, value in CONFIG.items() if name != "type"} | {"input": text}
    with english.client() as client:
        assert live(english, list(text)) == client.post(SPEECH, json=body).raise_for_status().content


@pytest.mark.parametrize(
    ("text", "code"),
    [("Hello there, say 今日は to me please. ", "unsupported_script"), ("<br/> ...", "nothing_to_speak")],
)
def test_live_text_that_cannot_be_spoken_ends_the_session(english: Serving, text: str, code: str) -> None:
    with session(english) as socket:
        send_text(socket, text)
        send_messages(socket, {"type": "input.done"})
        error = receive_error(socket)
    assert (error["param"], error["code"]) == ("text", code)


def test_say_reads_text_like_the_server(pocket: Path, tmp_path: Path, client: httpx.Client) -> None:
    output = tmp_path / "said.wav"
    options = ["--seed", "7", "--max-new-tokens", "24", "--normalize", "--language", "english"]
    text = "**SQL** costs $5."
    voice = ["--model", pocket, "--voice", "Serena", "--pronunciation", "SQL=sequel"]
    done = run_command("say", text, "-o", output, *voice, *options, **FAST_START)
    assert done.exit_code == 0, done.stderr
    samples, _ = sf.read(output, dtype="int16")
    said = as_it_is(client, "sequel costs five dollars.", **ENGLISH)
    assert samples.tobytes() == said
