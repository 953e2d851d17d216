"""Clients that leave: what they held is free again."""

from __future__ import annotations

import pytest

from tests.server.recordings import data_url, tone
from tests.server.serving import SPEECH, Serving, busy, endless, streamed


@pytest.mark.parametrize("kind", ["pcm", "mp3"])
@pytest.mark.parametrize("form", ["audio", "sse"])
def test_leaving_midway_cancels_and_is_logged(serving: Serving, form: str, kind: str) -> None:
    name = f"leaver-{form}-{kind}"
    asked = endless(stream_format=form, response_format=kind)
    with serving.client() as client, streamed(client, asked, **{"X-Request-Id": name}) as response:
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
        ("clone", {"stream": False, "ref_audio": data_url(tone(20)), "ref_text": "one two three"}),
    ],
)
def test_leaving_before_the_status_line_cancels_too(serving: Serving, name: str, fields: dict) -> None:
    with serving.asked(endless(**fields), f"early-{name}"):
        serving.until(busy)
    serving.wait_for(rf"id=early-{name} status=499")
    serving.until_idle()


def test_others_hear_the_same_whoever_leaves(serving: Serving) -> None:
    with serving.client() as client:
        asked = endless(max_new_tokens=60)
        alone = client.post(SPEECH, json=asked).content
        with serving.client() as leaver, streamed(leaver, endless(seed=1)) as left:
            leaving = left.iter_raw()
            assert next(leaving)
            with streamed(client, asked) as response:
                pieces = response.iter_raw()
                heard = [next(pieces)]
                left.close()
                heard.extend(pieces)
    assert b"".join(heard) == alone
    serving.until_idle()
