"""Times of words: in events, live sessions, batches and outcomes. The checkpoint is random, so they fit noise."""

from __future__ import annotations

import base64
from typing import Any

import httpx
import pytest

from tests.server.live_client import receive_utterance, send_utterance, session
from tests.server.serving import SPEECH, Serving, speech, streamed
from tests.server.test_outcomes import get_outcome
from tests.server.test_sse import parse_events

RATE = 24_000
WORDS = ["One,", "two", "three!"]
WORD_TIMES = {"input": " ".join(WORDS), "language": "English", "timestamp_granularities": ["word"]}


def events_of(client: httpx.Client, name: str = "", **fields: Any) -> list[dict[str, Any]]:
    headers = {"X-Request-Id": name} if name else {}
    with streamed(client, speech(**{**WORD_TIMES, "stream_format": "sse", **fields}), **headers) as response:
        return list(parse_events(response.iter_lines()))


def audio_of(events: list[dict[str, Any]]) -> bytes:
    return b"".join(base64.b64decode(event["audio"]) for event in events if event["type"] == "speech.audio.delta")


def words_of(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [word for event in events if event["type"] == "speech.audio.words" for word in event["words"]]


def check_words(words: list[dict[str, Any]], samples: int, expected: list[str] = WORDS) -> None:
    """The words are the text's first ones, one after the other, and within the audio. Noise may have none."""
    assert [word["word"] for word in words] == expected[: len(words)]
    times = [time for word in words for time in (word["start"], word["end"])]
    assert times == sorted(times)
    assert all(0 <= time <= samples / RATE + 0.001 for time in times)
    assert all(word["start"] < word["end"] for word in words)


def test_words_follow_the_audio_of_their_text(client: httpx.Client) -> None:
    events = events_of(client)
    kinds = [event["type"] for event in events]
    assert kinds[0] == "speech.audio.delta"
    assert kinds[-2:] == ["speech.audio.words", "speech.audio.done"]
    check_words(words_of(events), len(audio_of(events)) // 2)


def test_word_times_do_not_change_the_audio(client: httpx.Client) -> None:
    raw = client.post(SPEECH, json=speech(input=WORD_TIMES["input"], language="English")).content
    assert audio_of(events_of(client)) == raw
    assert client.post(SPEECH, json=speech(**WORD_TIMES)).content == raw


def test_no_words_are_sent_unless_requested(client: httpx.Client) -> None:
    for fields in ({"timestamp_granularities": []}, {"timestamp_granularities": None}):
        assert {event["type"] for event in events_of(client, **fields)} == {"speech.audio.delta", "speech.audio.done"}


def test_each_piece_of_a_split_text_has_its_words(client: httpx.Client) -> None:
    text = ["A first sentence of the text.", "The second one comes after it.", "And this is the third and last."]
    events = events_of(client, input=" ".join(text), split="sentence")
    words = words_of(events)
    starts = [word["start"] for word in words]
    assert starts == sorted(starts)
    assert [event["type"] for event in events].count("speech.audio.words") >= 3
    assert {word["word"] for word in words} <= set(" ".join(text).split())
    assert all(word["end"] <= len(audio_of(events)) / 2 / RATE + 0.001 for word in words)


def test_times_are_those_of_the_file_at_any_speed(client: httpx.Client) -> None:
    normal, fast = (words_of(events_of(client, speed=speed)) for speed in (1.0, 2.0))
    assert len(normal) == len(fast)
    for one, other in zip(normal, fast, strict=True):
        assert other["start"] == pytest.approx(one["start"] / 2, abs=0.002)
        assert other["end"] == pytest.approx(one["end"] / 2, abs=0.002)


@pytest.mark.parametrize("name", ["sse", "raw", "whole"])
def test_the_outcome_has_the_words(serving: Serving, client: httpx.Client, name: str) -> None:
    fields = {"sse": {"stream_format": "sse"}, "raw": {}, "whole": {"stream": False}}[name]
    headers = {"X-Request-Id": f"words-{name}"}
    client.post(SPEECH, json=speech(**WORD_TIMES, **fields), headers=headers).raise_for_status()
    serving.wait_for(f"id=words-{name} ")
    found = get_outcome(client, f"words-{name}")
    assert found["words"] == words_of(events_of(client))
    client.post(SPEECH, json=speech(), headers={"X-Request-Id": f"silent-{name}"})
    serving.wait_for(f"id=silent-{name} ")
    assert "words" not in get_outcome(client, f"silent-{name}")


def test_a_language_that_is_not_covered_has_null(serving: Serving, client: httpx.Client) -> None:
    events = events_of(client, "words-french", language="French", input="Bonjour tout le monde.")
    assert [event["words"] for event in events if event["type"] == "speech.audio.words"] == [None]
    serving.wait_for("id=words-french ")
    assert get_outcome(client, "words-french")["words"] is None


def test_items_of_a_batch_have_words(client: httpx.Client) -> None:
    items = [{}, {"timestamp_granularities": []}, {"language": "French"}]
    body = {"items": [{"input": WORD_TIMES["input"], **item} for item in items]}
    shared = {name: value for name, value in speech(**WORD_TIMES).items() if name != "input"}
    first, second, third = client.post(f"{SPEECH}/batch", json={**shared, **body}).json()["results"]
    check_words(first["words"], len(base64.b64decode(first["audio_data"])) // 2)
    assert "words" not in second
    assert third["words"] is None


def test_a_live_session_sends_words(serving: Serving) -> None:
    with session(serving, language="English", timestamp_granularities=["word"]) as socket:
        for _ in range(2):
            send_utterance(socket, WORD_TIMES["input"])
            audio, events = receive_utterance(socket)
            assert (events[0]["type"], events[-1]["type"]) == ("audio.start", "audio.done")
            check_words(words_of(events), len(audio) // 2)


@pytest.mark.parametrize("value", [["segment"], "segment", ["word", "word"], [1], {}])
def test_other_granularities_are_refused(client: httpx.Client, value: object) -> None:
    response = client.post(SPEECH, json=speech(timestamp_granularities=value))
    error = response.json()["error"]
    assert response.status_code == 400
    assert error["param"].startswith("timestamp_granularities")
    assert error["message"].startswith("timestamp_granularities")


def test_each_piece_of_a_long_live_text_has_its_words(serving: Serving) -> None:
    text = "This is a sentence of the text, and it goes on. " * 12
    with session(serving, language="English", timestamp_granularities=["word"], max_new_tokens=8) as socket:
        send_utterance(socket, text, 1000)
        _, events = receive_utterance(socket)
    assert [event["type"] for event in events].count("speech.audio.words") > 1
    words = words_of(events)
    starts = [word["start"] for word in words]
    assert starts == sorted(starts)
