"""Letters, stated readings and some names get their own phonemes; the rest is left to the package."""

import pytest

from scripts.train_pocket.phonemes import _with_links, letters, without_readings

LEXICON = {
    "A": "ˈA", "B": "bˈi", "F": "ˈɛf", "I": "ˈI", "P": "pˈi", "U": "jˈu", "C": "sˈi",
    "read": {"DEFAULT": "ɹˈid", "VBD": "ɹˈɛd"}, "led": "lˈɛd",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The F B I called.", ["F", "B", "I"]),
        ("I think A I is here.", ["A", "I"]),
        ("A man met Tom in Room B.", ["B"]),
        ("Plan A.", ["A"]),
        ("A plus and B minus.", ["A", "B"]),
        ("A one B two.", ["A", "B"]),
        ("Two C P U's and I.", ["C", "P", "U's"]),
        ("Am I late?", []),
        ("O'Brien has a T-shirt.", []),
    ],
)
def test_letters_are_read_by_name_unless_they_are_words(text, expected):
    assert [each[0] for each in letters(text)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I read<VBD> it.", "I [read](/ɹˈɛd/) it."),
        ("I read<DEFAULT> it.", "I [read](/ɹˈid/) it."),
        ("a lead<led> pipe", "a [lead](/lˈɛd/) pipe"),
        ("Two C P U's.", "Two [C](/sˈi/) [P](/pˈi/) [U's](/jˈuz/)."),
        ("It is C-A-B.", "It is [C](/sˈi/) [A](/ˈA/) [B](/bˈi/)."),
        ("Zoë left.", "[Zoe](/zˈOi/) left."),
        ("Nike and Xavier's café.", "Nike and [Xavier's](/zˈAvjəɹz/) cafe."),
        ('He said, "I\'ll go."', "He said, I'll go."),
        ('He said, "A man met B."', "He said, [A](/ɐ/) man met [B](/bˈi/)."),
    ],
)
def test_phonemes_are_stated_for_readings_letters_and_names(text, expected):
    assert _with_links(text, LEXICON, "american") == expected


def test_a_name_is_read_with_the_accent_of_the_voice():
    assert _with_links("Zoe!", LEXICON, "british") == "[Zoe](/zˈQiː/)!"


def test_an_unknown_reading_is_an_error():
    with pytest.raises(ValueError, match="no reading 'reed' of 'read'"):
        _with_links("I read<reed> it.", LEXICON, "american")


def test_stated_readings_are_not_part_of_the_text():
    assert without_readings("They read<VBD> about lead<led>.") == "They read about lead."
