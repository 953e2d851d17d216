"""The sessions in which live text is judged by ear (``scripts/judge/live.py``)."""

from urllib.parse import urlsplit

from scripts.judge.live import LiveText, speak


def test_a_session_returns_the_audio_and_when_it_began(serving):
    text = LiveText("replies", "One two three. Four five six.", "vivian", 1)
    port = urlsplit(serving.url).port
    answer = speak(port, text)
    assert answer.error is None
    assert len(answer.samples) >= 3840
    assert answer.samples == speak(port, text, pieces_per_s=500).samples
    assert 0 < answer.first_audio_s < 60


def test_a_session_that_fails_returns_the_code_of_the_error(serving):
    text = LiveText("replies", "One two three.", "nobody", 1)
    assert speak(urlsplit(serving.url).port, text).error == "voice_not_found"
