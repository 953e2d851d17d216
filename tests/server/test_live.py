"""Live text over a WebSocket: as if it had been there from the beginning, and silent when told."""

from __future__ import annotations

import pytest
from websockets.sync.client import connect

from tests.server.live_client import (
    CONFIG,
    TEXT,
    hear,
    hear_first,
    hear_to_event,
    live_url,
    refusal,
    say,
    session,
    tell,
    write,
)
from tests.server.serving import PATIENCE, SPEECH


def whole(client, text: str = TEXT, **fields: object) -> bytes:
    body = {name: value for name, value in CONFIG.items() if name != "type"} | {"input": text} | fields
    return client.post(SPEECH, json={**body, "non_streaming_mode": False}).raise_for_status().content


@pytest.mark.parametrize("size", [1, 4, 1000], ids=["by the letter", "by the token", "at once"])
def test_the_bytes_are_those_of_the_whole_text(serving, client, size):
    with session(serving) as socket:
        say(socket, TEXT, size)
        audio, events = hear(socket)
    assert audio == whole(client)
    assert [event["type"] for event in events] == ["audio.start", "audio.done"]
    assert events[0]["format"] == "pcm"
    assert events[0]["sample_rate"] == 24000
    usage = events[1]["usage"]
    assert usage["output_tokens"] * 1920 * 2 == len(audio)
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_audio_comes_before_the_text_is_complete(serving):
    with session(serving) as socket:
        write(socket)
        assert hear_first(socket)
        tell(socket, {"type": "input.done"})
        assert hear(socket)[1][-1]["type"] == "audio.done"


def test_one_utterance_after_the_other(serving, client):
    with session(serving) as socket:
        for text in (TEXT, "Hi", "And once more, please."):
            say(socket, text)
            assert hear(socket)[0] == whole(client, text)


def test_the_formats_of_speech_requests(serving, client):
    with session(serving, response_format="mp3", speed=1.5) as socket:
        say(socket, TEXT)
        assert hear(socket)[0] == whole(client, response_format="mp3", speed=1.5)


def test_cancelled_it_is_silent_and_listens_again(serving, client):
    with session(serving, max_new_tokens=2000) as socket:
        write(socket)
        assert hear_first(socket)
        tell(socket, {"type": "cancel"})
        _, event = hear_to_event(socket)
        assert event == {"type": "audio.done", "finish_reason": "cancelled", "usage": None}
        tell(socket, CONFIG)
        say(socket, TEXT)
        assert hear(socket)[0] == whole(client)


@pytest.mark.parametrize(
    ("message", "param", "code"),
    [
        ({"type": "shout"}, "type", "invalid_value"),
        ({"type": "input.text"}, "text", "invalid_value"),
        ({"type": "input.text", "text": "a", "more": 1}, "more", "unknown_parameter"),
        ({"type": "input.done"}, "text", "invalid_value"),
        ({"type": "input.text", "text": "a" * 5000}, "text", "string_above_max_length"),
        ({"type": "session.config", "input": "a"}, "input", "unknown_parameter"),
        ({"type": "session.config", "speed": 9}, "speed", "invalid_value"),
        ({"type": "session.config", "voise": "x"}, "voise", "unknown_parameter"),
        ({"type": "session.config", "model": "x"}, "model", "model_not_found"),
    ],
)
def test_what_is_wrong_with_a_message_is_said(serving, message, param, code):
    with session(serving) as socket:
        tell(socket, message)
        error = refusal(socket)
    assert (error["param"], error["code"]) == (param, code)


def test_a_voice_that_is_not_there_is_said_when_it_should_speak(serving):
    with session(serving, voice="nobody") as socket:
        write(socket)
        assert refusal(socket)["code"] == "voice_not_found"


def test_text_before_the_configuration_is_refused(serving):
    with connect(live_url(serving), open_timeout=PATIENCE) as socket:
        write(socket)
        assert refusal(socket)["param"] == "type"


def test_a_client_that_vanishes_leaves_nothing_behind(serving, client):
    with session(serving, max_new_tokens=2000) as socket:
        write(socket)
        assert hear_first(socket)
        socket.socket.close()
    serving.wait_for(r"WS .*client_left")
    assert whole(client) == whole(client)


def test_text_after_an_utterance_that_ended_by_itself_is_void(serving, client):
    with session(serving, max_new_tokens=4) as socket:
        write(socket)
        assert hear(socket)[1][-1]["finish_reason"] == "length"
        tell(socket, {"type": "input.text", "text": " More of it."}, {"type": "input.done"}, CONFIG)
        say(socket, TEXT)
        assert hear(socket)[0] == whole(client)


def test_a_done_that_crosses_a_cancel_is_void(serving, client):
    with session(serving, max_new_tokens=2000) as socket:
        write(socket)
        assert hear_first(socket)
        tell(socket, {"type": "cancel"}, {"type": "input.done"})
        hear_to_event(socket)
        tell(socket, CONFIG)
        say(socket, TEXT)
        assert hear(socket)[0] == whole(client)


@pytest.mark.parametrize(
    "pieces",
    [["E", "E\u0301", " two"], ["E\u0301", "a ends."], ["x\u0301.", " Two."], ["नमस्", "ते दुनिया"], ["क\u200d", "ष one"]],
    ids=ascii,
)
def test_a_first_word_may_be_cut_after_a_combining_mark(serving, client, pieces):
    with session(serving) as socket:
        for piece in pieces:
            write(socket, piece)
        tell(socket, {"type": "input.done"})
        audio, events = hear(socket)
    assert events[-1]["type"] == "audio.done"
    assert audio == whole(client, "".join(pieces))
