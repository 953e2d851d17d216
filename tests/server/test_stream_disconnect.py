"""Client disconnects release all resources of a request."""

from __future__ import annotations

import pytest

from tests.server.recordings import data_url, tone
from tests.server.serving import SPEECH, Serving, busy, endless, streamed


@pytest.mark.parametrize("kind", ["pcm", "mp3"])
@pytest.mark.parametrize("form", ["audio", "sse"])
def test_a_disconnect_during_streaming_cancels_and_is_logged(serving: Serving, form: str, kind: str) -> None:
    name = f"disconnected-{form}-{kind}"
    body = endless(stream_format=form, response_format=kind)
    with serving.client() as client, streamed(client, body, **{"X-Request-Id": name}) as response:
        pieces = response.iter_raw()
        assert next(pieces)
        assert busy(serving.stats()) > 0
    serving.wait_for(rf"id={name} status=499")
    serving.until_idle()


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("whole", {"stream": False}),
        ("flac", {"stream": False, "response_format": "flac"}),
        ("clone", {"stream": False, "ref_audio": data_url(tone(20)), "ref_text": "one two three " * 15}),
    ],
)
def test_a_disconnect_before_the_status_line_cancels(serving: Serving, name: str, fields: dict) -> None:
    with serving.send_speech(endless(**fields), f"early-{name}"):
        serving.until(busy)
    serving.wait_for(rf"id=early-{name} status=499")
    serving.until_idle()


def test_a_disconnect_does_not_change_the_audio_of_others(serving: Serving) -> None:
    with serving.client() as client:
        body = endless(max_new_tokens=60)
        alone = client.post(SPEECH, json=body).content
        with serving.client() as other, streamed(other, endless(seed=1)) as disconnected:
            other_pieces = disconnected.iter_raw()
            assert next(other_pieces)
            with streamed(client, body) as response:
                pieces = response.iter_raw()
                received = [next(pieces)]
                disconnected.close()
                received.extend(pieces)
    assert b"".join(received) == alone
    serving.until_idle()
