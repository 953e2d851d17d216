"""The steps of the front end together: their result, and the report of what they changed."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.text import marks
from server.text.frontend import STEPS, Pause, spoken

from .readings import CLASSES, items, words

PLAIN = [
    "The ferry leaves the harbor at noon and comes back before dark.",
    "She said that she didn't know, and left; nobody followed her.",
    "Is it true? Yes, it is!",
    "My well-known neighbor's dog isn't friendly.",
]
UNUSUAL = "İıſKÅµΩℓ½²ªº№ßẞĳŉ٣三〇Ⅳⅷ①㊿⒈🄰Ａ１％＄Σςᏸ\u0301\u0345\u200d"
"""Letters, digits and signs of other scripts, some of which change their length or their script with the case."""
REFERENCES = ["&amp;", "&lt;b&gt;", "&rsquo;", "&#0;", "&#xe000;", "&#xf2710;", "&#x100005;", "&#xd800;", "&#x110000;"]
TYPED = [item.typed for name in CLASSES for item in items(name)]


@pytest.mark.parametrize("text", PLAIN)
def test_a_plain_sentence_is_unchanged(text):
    assert spoken(text, "english") == (text, (), ())


@given(st.text())
def test_no_text_keeps_digits(text):
    result = spoken(text, "english").text
    assert not any(character.isdigit() for character in result)
    assert not marks.RESERVED.search(result)


@given(st.lists(st.sampled_from([*TYPED, *PLAIN, "**", "`", "<b>", "[", "]( ", "$", "5", " - ", "\n", "\n\n", "🎉"])))
def test_no_combination_of_real_pieces_keeps_digits(pieces):
    result = spoken("".join(pieces), "english").text
    assert not any(character.isdigit() for character in result)


@given(st.sampled_from(TYPED), st.integers(0, 200), st.sampled_from([*UNUSUAL, *REFERENCES]), st.booleans())
def test_no_unusual_character_in_a_real_text_is_an_error(text, position, unusual, replaces):
    spoken(text[:position] + unusual + text[position + replaces :], "english", pronunciations={"SQL": "sequel"})


@given(st.text(), st.sampled_from(["german", "auto", "chinese", "klingon"]), st.sets(st.sampled_from(STEPS)))
def test_other_languages_and_steps_never_fail(text, language, steps):
    spoken(text, language, steps)


@given(st.lists(st.sampled_from(" ".join(PLAIN).split()), min_size=1).map(" ".join))
def test_normalizing_plain_words_twice_changes_nothing(text):
    once = spoken(text, "english").text
    assert spoken(once, "english").text == once


@pytest.mark.parametrize("name", CLASSES)
def test_normalizing_an_item_twice_changes_nothing(name):
    once = [spoken(item.typed, "english").text for item in items(name)]
    again = [spoken(each, "english").text for each in once]
    changed = [(before, after) for before, after in zip(once, again, strict=True) if before != after]
    assert len(changed) <= len(once) // 10, changed


def test_the_steps_that_changed_a_text_are_named():
    assert spoken("“Hi” **you** 🎉 5", "english").changed == STEPS
    assert spoken("It costs $5.", "english", {"unicode", "markup", "emoji"}) == ("It costs $5.", (), ())
    assert spoken("SQL", "english", pronunciations={"SQL": "sequel"}).changed == ("pronunciations", "normalize")


def test_numbers_and_capitals_are_kept_without_the_normalize_step():
    text = "Call **Dr. Smith** at 5 p.m. – it costs $3.50 at NASA. 🎉"
    assert (
        spoken(text, "english", {"unicode", "markup", "emoji"}).text
        == "Call Dr. Smith at 5 p.m. – it costs $3.50 at NASA."
    )


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("USB-C-to-HDMI", "U S B C to H D M I."),
        ("An ex-CIA agent", "An ex C I A agent."),
        ("usb-c", "U S B C."),
        ("AI-powered", "A I powered."),
        ("GPT-4o-mini", "G P T four O mini."),
        ("An H-1B visa", "An H one B visa."),
        ("B-52s", "B fifty-twos."),
    ],
)
def test_no_hyphen_stays_next_to_letters_that_are_spelled(typed, text):
    assert spoken(typed, "english").text == text


@pytest.mark.parametrize("typed", ["An X-ray.", "Wi-Fi.", "A T-shirt.", "An e-mail.", "A U-turn.", "D-Day.", "Type-C."])
def test_other_words_keep_their_hyphen(typed):
    assert spoken(typed, "english").text == typed


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("“He would never—”", "He would never."),
        ("“I thought—” “You thought wrong.”", "I thought. You thought wrong."),
        ("It was late… Then he left.", "It was late. Then he left."),
        ("“It was late...” Then he left.", "It was late. Then he left."),
        ("You mean that he—?", "You mean that he?"),
        ("Really...? No…!", "Really? No!"),
        ("Loading....", "Loading."),
        ("- one...\n- two—\n- three", "One. Two. Three."),
    ],
)
def test_a_sentence_that_breaks_off_ends_with_its_mark_or_a_full_stop(typed, text):
    assert spoken(typed, "english").text == text


@pytest.mark.parametrize(
    "typed", ["I... I don't know.", "I was going to — she said.", "Wait — what?", "Well... maybe."]
)
def test_dashes_and_three_dots_inside_a_sentence_stay(typed):
    assert spoken(typed, "english").text == typed


@pytest.mark.parametrize("language", ["german", "French", "auto"])
def test_other_languages_keep_their_words_and_numbers(language):
    text = "Das kostet **3,50 €** am 3. Oktober… 🎉"
    assert spoken(text, language).text == "Das kostet 3,50 € am 3. Oktober..."


def test_refuses_an_unknown_step():
    with pytest.raises(ValueError, match="steps must be among unicode, markup, emoji, normalize, quotes, got spell"):
        spoken("Hi", "english", {"spell"})


def test_paragraphs_stay_separate():
    assert spoken("Dear Ann,\n\nI am fine.\n\n\n\nBen", "english").text == "Dear Ann.\n\nI am fine.\n\nBen."


@pytest.mark.parametrize(
    ("typed", "text", "pauses"),
    [
        ("Wait [pause 0.5s] for it.", "Wait for it.", [(5, 0.5)]),
        ("[pause 2s] Hi there", "Hi there.", [(0, 2.0)]),
        ("Bye [pause 250ms]", "Bye.", [(4, 0.25)]),
        ("Bye [PAUSE 250 MS]", "Bye.", [(4, 0.25)]),
        ('<speak>One.<break time="1s"/>Two.<break strength="none"/></speak>', "One. Two.", [(5, 1.0)]),
        ('One <break time="300ms"/> & two <b>three', "One and two three.", [(4, 0.3)]),
        ("A [pause 99s] b", "A b.", [(2, 10.0)]),
    ],
)
def test_pauses_have_their_position_and_length(typed, text, pauses):
    assert spoken(typed, "english") == (text, spoken(typed, "english").changed, tuple(Pause(*each) for each in pauses))


@pytest.mark.parametrize("steps", [STEPS, ("normalize",)])
def test_a_capital_i_with_a_dot_is_read(steps):
    assert spoken("See act İ, scene 2.", "english", steps).text == "See act one, scene two."


def test_private_use_characters_in_the_text_are_removed():
    text = f"a{marks.pause(1)}b{marks.CODE_START}c{marks.word(0, capital=False)}d"
    assert spoken(text, "english", (), {"x": "y"}) == ("abcd", (), ())


class TestPronunciations:
    def test_an_entry_matches_whole_words_in_any_case(self):
        entries = {"nguyen": "win", "data base": "database"}
        assert (
            spoken("Nguyen's NGUYEN Nguyens, Data Base", "english", (), entries).text == "win's win Nguyens, database"
        )

    def test_an_entry_with_capitals_matches_only_as_written(self):
        assert spoken("US us", "english", (), {"US": "America"}).text == "America us"

    @pytest.mark.parametrize("typed", ["a &#x100005; b", "a &#x100000; b", "<p>a &#38;#x100005; b</p>"])
    def test_a_character_reference_is_no_entry(self, typed):
        assert spoken(typed, "english", pronunciations={"SQL": "sequel"}).text == "A b."

    def test_a_respelling_is_not_normalized(self):
        entries = {"GIF": "jif", "C++": "C plus plus", "K8s": "kates 8 NASA"}
        assert spoken("A GIF in C++ on K8s", "english", STEPS, entries).text == "A jif in C plus plus on kates 8 NASA."

    @pytest.mark.parametrize(
        ("typed", "expected"),
        [
            ("Dr. Nguyen lives on Nguyen St. now.", "Doctor win lives on win Street now."),
            ("Prof. Nguyen met Gov. Nguyen at 5 Nguyen Dr.", "Professor win met Governor win at five win Drive."),
            ("Ask lt. Nguyen or Mr Nguyen.", "Ask Lieutenant win or Mister win."),
        ],
    )
    def test_abbreviations_beside_a_name_with_an_entry_are_expanded(self, typed, expected):
        assert spoken(typed, "english", pronunciations={"nguyen": "win"}).text == expected

    @pytest.mark.parametrize(
        ("typed", "expected"),
        [
            ("We used the data Dr. Smith collected.", "We used the day-ta Doctor Smith collected."),
            ("By the data St. Louis leads.", "By the day-ta Saint Louis leads."),
            ("The MS SQL Server is down.", "The M S sequel Server is down."),
        ],
    )
    def test_an_entry_that_is_no_name_does_not_change_abbreviations_beside_it(self, typed, expected):
        assert spoken(typed, "english", pronunciations={"data": "day-ta", "SQL": "sequel"}).text == expected

    @pytest.mark.parametrize("typed", ["O\u2019Neil", "Zoe\u0308", "\uff33\uff31\uff2c"])
    def test_an_entry_matches_however_its_characters_are_written(self, typed):
        for steps in (STEPS, ()):
            assert spoken(typed, "english", steps, {typed: "right"}).text.lower().rstrip(".") == "right"
        assert spoken("O\u2019Neil", "english", pronunciations={"O'Neil": "right"}).text == "right."

    def test_the_longest_entry_wins(self):
        entries = {"new york": "N Y", "new": "nu", "york": "yorick"}
        assert spoken("new new york york", "english", (), entries).text == "nu N Y yorick"

    def test_an_entry_with_capitals_takes_precedence(self):
        entries = {"sql": "sequel", "SQL Server": "sequel server", "SQL": "S Q L"}
        assert spoken("SQL Server, SQL, Sql", "english", (), entries).text == "sequel server, S Q L, sequel"

    def test_an_entry_may_begin_and_end_with_punctuation(self):
        entries = {".net": "dot net", "c#": "c sharp", "o'neil": "o neel"}
        assert spoken("ASP.NET, C#, O'Neil's", "english", (), entries).text == "ASPdot net, c sharp, o neel's"

    def test_the_cost_does_not_grow_with_the_number_of_entries(self):
        entries = {"w" * length: "y" for length in range(1, 100)}
        assert spoken("w" * 200_000, "english", (), entries).text == "w" * 200_000

    def test_empty_words_are_left_out(self):
        assert spoken("a b", "english", (), {"": "x", " ": "y"}).text == "a b"


def test_the_package_is_imported_without_torch_and_without_the_markdown_parser():
    code = "import sys, server.text.live; print([name for name in ('torch', 'markdown_it') if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


@pytest.mark.parametrize(
    ("typed", "heard"),
    [
        ("It costs $5/1M tokens.", "it costs five dollars per one million tokens"),
        ("$0.50/1,000 requests is cheap.", "fifty cents per one thousand requests is cheap"),
        ("Tickets are $20/30 for adults.", "tickets are twenty dollars slash thirty for adults"),
        ("I saw The Wizard of Oz.", "i saw the wizard of oz"),
        ("Add 3 oz. of milk.", "add three ounces of milk"),
    ],
)
def test_an_ambiguous_token_is_read_by_its_context(typed, heard):
    assert words(spoken(typed, "english").text) == heard
