"""Long text: synthesized in pieces, sent as one utterance."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import openai
import pytest

from server.long_text.pieces import SENTENCE_PAUSE
from server.long_text.segments import seed_of
from tests.server.audio_decoding import CONTENT_TYPES, decode_audio, max_padding
from tests.server.recordings import data_url, tone
from tests.server.serving import SPEECH, Serving, busy, endless, speech, streamed, write_config
from tests.server.test_bad_input import check
from tests.server.test_sse import parse_events
from tests.support.random_checkpoint import write_checkpoint

SENTENCES = ["Good morning to all of you.", "This is the second of them.", "And here it comes to an end."]
TEXT = " ".join(SENTENCES)
FRAMES = 5
"""Frames of each sentence: the sixth token exceeds max_new_tokens."""
SECONDS = len(SENTENCES) * FRAMES * 0.08 + (len(SENTENCES) - 1) * SENTENCE_PAUSE


def split_request(**fields: object) -> dict:
    return endless(input=TEXT, split="sentence", max_new_tokens=FRAMES + 1, **fields)


def test_a_split_text_is_the_concatenation_of_its_sentences(client: httpx.Client) -> None:
    fields = {"temperature": 0.9, "subtalker_temperature": 0.9}
    samples = np.frombuffer(client.post(SPEECH, json=split_request(**fields)).content, "<i2")
    alone = [
        client.post(
            SPEECH, json=endless(input=text, max_new_tokens=FRAMES + 1, seed=seed_of(7, number), **fields)
        ).content
        for number, text in enumerate(SENTENCES)
    ]
    length, pause = FRAMES * 1920, round(SENTENCE_PAUSE * 24_000)
    for number, audio in enumerate(alone):
        start = number * (length + pause)
        assert np.array_equal(samples[start : start + length], np.frombuffer(audio, "<i2"))
        assert not samples[start + length : start + length + pause].any()
    assert len(samples) == len(alone) * length + (len(alone) - 1) * pause


def test_the_same_seed_gives_the_same_bytes_streamed_and_complete(client: httpx.Client) -> None:
    body = split_request(temperature=0.9, seed=11)
    first = client.post(SPEECH, json=body).content
    assert first == client.post(SPEECH, json=body).content
    assert first == client.post(SPEECH, json={**body, "stream": False}).content
    assert first != client.post(SPEECH, json={**body, "seed": 12}).content


@pytest.mark.parametrize("kind", CONTENT_TYPES)
def test_all_sentences_are_in_one_valid_file(client: httpx.Client, kind: str) -> None:
    response = client.post(SPEECH, json=split_request(response_format=kind))
    assert response.headers["content-type"] == CONTENT_TYPES[kind]
    samples, rate = decode_audio(response.content, kind)
    expected = round(SECONDS * rate)
    assert expected <= len(samples) <= expected + max_padding(kind, rate)


def test_speed_and_sample_rate_apply_to_the_whole_text(client: httpx.Client) -> None:
    response = client.post(SPEECH, json=split_request(speed=2.0, sample_rate=16_000, response_format="wav"))
    samples, rate = decode_audio(response.content, "wav")
    assert rate == 16_000
    assert len(samples) / rate == pytest.approx(SECONDS / 2, abs=0.05)


def test_the_usage_covers_all_sentences(client: httpx.Client) -> None:
    with streamed(client, split_request(stream_format="sse")) as response:
        *deltas, done = parse_events(response.iter_lines())
    assert {delta["type"] for delta in deltas} == {"speech.audio.delta"}
    assert done["finish_reason"] == "length"
    assert done["usage"]["output_tokens"] == len(SENTENCES) * FRAMES
    with streamed(client, endless(input=SENTENCES[0], max_new_tokens=6, stream_format="sse")) as response:
        *_, alone = parse_events(response.iter_lines())
    assert done["usage"]["input_tokens"] > 2 * alone["usage"]["input_tokens"]


def test_a_reference_is_encoded_once_for_all_sentences(serving: Serving, client: httpx.Client) -> None:
    before = serving.stats()["engine"]
    response = client.post(SPEECH, json=split_request(ref_audio=data_url(tone(2.25)), ref_text="one two three four"))
    assert response.status_code == 200
    assert len(response.content) == round(SECONDS * 24_000) * 2
    after = serving.stats()["engine"]
    counters = [name for name in before if "reference" in name]
    assert counters
    assert sum(after[name] - before[name] for name in counters) <= 1


def test_splitting_allows_texts_beyond_the_limit_of_one_utterance(client: httpx.Client) -> None:
    sentence = "The quick brown fox jumps over the lazy dog again and again. "
    text = sentence * 80
    refused = client.post(SPEECH, json=speech(input=text, split="none"))
    check(refused, 400, "input", "string_above_max_length")
    response = client.post(SPEECH, json=endless(input=text, max_new_tokens=3))
    pieces = 80 // (300 // len(sentence))
    assert len(response.content) == 2 * (pieces * 2 * 1920 + (pieces - 1) * round(SENTENCE_PAUSE * 24_000))


def test_the_openai_client_can_request_a_long_text(serving: Serving) -> None:
    with openai.OpenAI(base_url=f"{serving.url}/v1", api_key="any", max_retries=0) as sdk:
        answer = sdk.audio.speech.create(
            model="tts-1",
            voice="alloy",
            input=TEXT,
            response_format="pcm",
            extra_body={"split": "sentence", "max_new_tokens": 3},
        )
    assert np.frombuffer(answer.content, "<i2").size > 0


def test_a_disconnect_also_frees_the_sentence_generated_ahead(serving: Serving) -> None:
    body = endless(input=TEXT * 20, split="sentence", max_new_tokens=40)
    with serving.client() as client, streamed(client, body, **{"X-Request-Id": "left-a-book"}) as response:
        pieces = response.iter_raw()
        assert next(pieces)
        assert busy(serving.stats()) > 0
    serving.wait_for(r"id=left-a-book status=499")
    serving.until_idle()


@pytest.fixture(scope="module")
def two_slots(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server that runs two requests and queues none; small receive windows block a client that stops reading soon."""
    limits = {"max_running": 2, "max_waiting": 0, "max_split_chars": 5000}
    config = write_config(tmp_path_factory.mktemp("two-slots"), pocket, limits=limits)
    with Serving(config) as server:
        yield server.ready()


def test_a_slow_reader_of_a_long_text_holds_one_place_and_at_most_two_sentences(two_slots: Serving) -> None:
    body = endless(input=TEXT * 50, split="sentence", max_new_tokens=30)
    with two_slots.send_speech(body, "slow-reader", window=4096) as connection:
        assert connection.recv(12) == b"HTTP/1.1 200"
        two_slots.until_engine_idle()
        stats = two_slots.stats()
        assert stats["requests"] == 1
        assert stats["engine"]["talker_slots"] + stats["engine"]["talker_waiting"] <= 2
        with two_slots.client() as other:
            assert other.post(SPEECH, json=speech()).status_code == 200
    two_slots.wait_for(r"id=slow-reader status=499")
    two_slots.until_idle()


def test_the_maximum_text_length_is_a_setting(two_slots: Serving) -> None:
    with two_slots.client() as client:
        refused = client.post(SPEECH, json=speech(input="a" * 5001, split="sentence"))
        check(refused, 400, "input", "string_above_max_length")


def test_a_designed_voice_speaks_one_utterance_and_is_not_split(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "designer", "1b7-voice_design")
    with Serving(write_config(tmp_path, tmp_path / "designer")) as server, server.ready().client() as client:
        described = endless(input=TEXT * 10, instructions="A calm old man.", max_new_tokens=FRAMES + 1)
        assert len(client.post(SPEECH, json=described).content) == FRAMES * 1920 * 2
        check(client.post(SPEECH, json={**described, "split": "sentence"}), 400, "split", "not_supported")
        check(client.post(SPEECH, json={**described, "input": "a" * 5000}), 400, "input", "string_above_max_length")
        turns = {**described, "input": [{"input": "Good morning."}]}
        check(client.post(SPEECH, json=turns), 400, "input[0].input", "not_supported")


def test_a_text_that_fits_is_the_same_with_and_without_splitting(client: httpx.Client) -> None:
    body = endless(input=TEXT, max_new_tokens=FRAMES + 1)
    audio = client.post(SPEECH, json=body).content
    assert len(audio) == FRAMES * 1920 * 2
    assert audio == client.post(SPEECH, json={**body, "split": "none"}).content


@pytest.mark.parametrize(
    "text", ["Hello there [pause 1.25s] my friend.", "<speak>Hello <break time='1250ms'/>you</speak>"]
)
def test_a_requested_pause_is_silence_of_that_length(client: httpx.Client, text: str) -> None:
    body = endless(input=text, max_new_tokens=FRAMES + 1)
    samples = np.frombuffer(client.post(SPEECH, json=body).content, "<i2")
    assert len(samples) == 2 * FRAMES * 1920 + 30_000
    assert not samples[FRAMES * 1920 :][:30_000].any()


def test_too_much_silence_is_refused(client: httpx.Client) -> None:
    refused = client.post(SPEECH, json=speech(input="Well, [pause 9s] " * 40))
    check(refused, 400, "input", "pauses_too_long")
