"""Long texts that are judged by ear."""

import pytest

from scripts.judge.long_texts import KINDS, Comparison, LongText, line, make
from server.text.frontend import spoken


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("characters", [100, 1000, 20_000])
def test_a_text_has_the_requested_length_and_the_words_of_its_sentences(kind, characters):
    text = make(kind, characters)
    assert 0.6 * characters < len(text.typed) < 1.2 * characters
    words = " ".join(spoken(sentence, "english").text for sentence in text.sentences).split()
    assert spoken(text.typed, "english").text.split() == words


def test_a_text_is_the_same_every_time():
    assert make("prose", 500) == make("prose", 500)
    assert make("prose", 500) != make("chat", 500)


def test_the_line_of_a_text_names_what_both_recognizers_miss_or_add():
    text = LongText("chat", "One.\n\nTwo.", ["One.", "Two."])
    moonshine = Comparison(1, 4, ["Two."], ["one one one one"])
    first, *others = line(text, [0.0] * 36_000, {"moonshine": moonshine, "whisper": moonshine}).splitlines()
    assert first.split() == ["chat", "10", "2", "1.5", "25.0", "%", "25.0", "%", "1", "1"]
    assert others == ["  lost: 'Two.'", "  inserted: 'one one one one'"]
    (only,) = line(text, [0.0] * 36_000, {"moonshine": moonshine, "whisper": Comparison(0, 4, [], [])}).splitlines()
    assert only.split() == ["chat", "10", "2", "1.5", "25.0", "%", "0.0", "%", "0", "0"]
