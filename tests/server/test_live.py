"""Live text over a WebSocket: the same audio as for the complete text, and cancellation."""

from __future__ import annotations

import numpy as np
import pytest
from websockets.sync.client import connect

from server.long_text.pieces import SENTENCE_PAUSE
from tests.server.live_client import (
    CONFIG,
    TEXT,
    live_url,
    receive_error,
    receive_first_audio,
    receive_until_event,
    receive_utterance,
    send_messages,
    send_text,
    send_utterance,
    session,
)
from tests.server.serving import LOOPING, SPEECH, TIMEOUT


def synthesize(client, text: str = TEXT, **fields: object) -> bytes:
    body = {name: value for name, value in CONFIG.items() if name != "type"} | {"input": text} | fields
    return client.post(SPEECH, json={**body, "non_streaming_mode": False}).raise_for_status().content


@pytest.mark.parametrize("size", [1, 4, 1000], ids=["per character", "per token", "at once"])
def test_live_text_gives_the_audio_of_the_complete_text(serving, client, size):
    with session(serving) as socket:
        send_utterance(socket, TEXT, size)
        audio, events = receive_utterance(socket)
    assert audio == synthesize(client)
    assert [event["type"] for event in events] == ["audio.start", "audio.done"]
    assert events[0]["format"] == "pcm"
    assert events[0]["sample_rate"] == 24000
    usage = events[1]["usage"]
    assert usage["output_tokens"] * 1920 * 2 == len(audio)
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_audio_starts_before_the_text_is_complete(serving):
    with session(serving) as socket:
        send_text(socket)
        assert receive_first_audio(socket)
        send_messages(socket, {"type": "input.done"})
        assert receive_utterance(socket)[1][-1]["type"] == "audio.done"


def test_a_session_speaks_several_utterances(serving, client):
    with session(serving) as socket:
        for text in (TEXT, "Hi", "And once more, please."):
            send_utterance(socket, text)
            assert receive_utterance(socket)[0] == synthesize(client, text)


def test_a_session_supports_format_and_speed(serving, client):
    with session(serving, response_format="mp3", speed=1.5) as socket:
        send_utterance(socket, TEXT)
        assert receive_utterance(socket)[0] == synthesize(client, response_format="mp3", speed=1.5)


def test_a_cancelled_session_accepts_new_text(serving, client):
    with session(serving, max_new_tokens=2000) as socket:
        send_text(socket)
        assert receive_first_audio(socket)
        send_messages(socket, {"type": "cancel"})
        _, event = receive_until_event(socket)
        index = {"utterance_index": 0, "sentence_index": 0}
        assert event == {"type": "audio.done", **index, "finish_reason": "cancelled", "usage": None}
        send_messages(socket, CONFIG)
        send_utterance(socket, TEXT)
        assert receive_utterance(socket)[0] == synthesize(client)


@pytest.mark.parametrize(
    ("message", "param", "code"),
    [
        ({"type": "shout"}, "type", "invalid_value"),
        ({"type": "input.text"}, "text", "missing_required_parameter"),
        ({"type": "input.text", "text": 5}, "text", "invalid_type"),
        ({"type": "input.text", "text": "a", "more": 1}, "more", "unknown_parameter"),
        ({"type": "input.done"}, "text", "invalid_value"),
        ({"type": "input.text", "text": "a" * 5000}, "text", "string_above_max_length"),
        ({"type": "session.config", "input": "a"}, "input", "unknown_parameter"),
        ({"type": "session.config", "speed": 9}, "speed", "invalid_value"),
        ({"type": "session.config", "voise": "x"}, "voise", "unknown_parameter"),
        ({"type": "session.config", "model": "x"}, "model", "model_not_found"),
    ],
)
def test_an_invalid_message_gets_an_error(serving, message, param, code):
    with session(serving) as socket:
        send_messages(socket, message)
        error = receive_error(socket)
    assert (error["param"], error["code"]) == (param, code)


def test_an_unknown_voice_is_reported_when_synthesis_starts(serving):
    with session(serving, voice="nobody") as socket:
        send_text(socket)
        assert receive_error(socket)["code"] == "voice_not_found"


def test_refuses_text_before_the_configuration(serving):
    with connect(live_url(serving), open_timeout=TIMEOUT) as socket:
        send_text(socket)
        assert receive_error(socket)["param"] == "type"


def test_a_client_that_disappears_releases_its_resources(serving, client):
    with session(serving, max_new_tokens=2000) as socket:
        send_text(socket)
        assert receive_first_audio(socket)
        socket.socket.close()
    serving.wait_for(r"WS .*client_left")
    assert synthesize(client) == synthesize(client)


def test_text_after_the_end_of_an_utterance_is_ignored(serving, client):
    with session(serving, max_new_tokens=4) as socket:
        send_text(socket)
        assert receive_utterance(socket)[1][-1]["finish_reason"] == "length"
        send_messages(socket, {"type": "input.text", "text": " More of it."}, {"type": "input.done"}, CONFIG)
        send_utterance(socket, TEXT)
        assert receive_utterance(socket)[0] == synthesize(client)


def test_a_done_after_a_cancel_is_ignored(serving, client):
    with session(serving, max_new_tokens=2000) as socket:
        send_text(socket)
        assert receive_first_audio(socket)
        send_messages(socket, {"type": "cancel"}, {"type": "input.done"})
        receive_until_event(socket)
        send_messages(socket, CONFIG)
        send_utterance(socket, TEXT)
        assert receive_utterance(socket)[0] == synthesize(client)


@pytest.mark.parametrize(
    "pieces",
    [
        ["E", "E\u0301", " two"],
        ["E\u0301", "a ends."],
        ["x\u0301.", " Two."],
        ["Добрыи", "\u0306 день"],
        ["a\u200d", "b one"],
    ],
    ids=ascii,
)
def test_text_may_be_split_after_a_combining_mark(serving, client, pieces):
    with session(serving) as socket:
        for piece in pieces:
            send_text(socket, piece)
        send_messages(socket, {"type": "input.done"})
        audio, events = receive_utterance(socket)
    assert events[-1]["type"] == "audio.done"
    assert audio == synthesize(client, "".join(pieces))


def test_text_may_be_split_within_an_emoji(serving, client):
    """JavaScript may cut a string between the two surrogates of an emoji, and escapes each of them."""
    with session(serving) as socket:
        for escaped in ('"Well done \\ud83d"', '"\\ude00 again."'):
            socket.send(f'{{"type": "input.text", "text": {escaped}}}')
        send_messages(socket, {"type": "input.done"})
        audio, events = receive_utterance(socket)
    assert events[-1]["type"] == "audio.done"
    assert audio == synthesize(client, "Well done again.")


def test_a_requested_pause_in_live_text_is_silence_of_that_length(serving):
    with session(serving, max_new_tokens=9, **LOOPING) as socket:
        send_utterance(socket, "Hello there, [pause 1s] my friend.", 100)
        samples = np.frombuffer(receive_utterance(socket)[0], "<i2")
    assert len(samples) == 2 * 8 * 1920 + 24_000
    assert not samples[8 * 1920 :][:24_000].any()


def test_long_live_text_is_spoken_in_pieces(serving):
    sentence = "The quick brown fox jumps over the lazy dog again and again. "
    with session(serving, max_new_tokens=9, **LOOPING) as socket:
        send_messages(socket, {"type": "input.text", "text": sentence * 6}, {"type": "input.done"})
        audio, events = receive_utterance(socket)
    assert len(audio) == 2 * (2 * 8 * 1920 + round(SENTENCE_PAUSE * 24_000))
    assert events[-1]["usage"]["output_tokens"] == 2 * 8
