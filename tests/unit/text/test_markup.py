"""Markdown, HTML and SSML become plain text; text that only looks like markup is kept."""

from __future__ import annotations

import pytest

from server.text import marks, markup, ssml
from server.text.english.say_as import say_as
from server.text.frontend import spoken


def text(typed: str) -> str:
    return spoken(typed, "english", {"unicode", "markup", "emoji"}).text


@pytest.mark.parametrize(
    ("typed", "plain"),
    [
        ("Some **bold**, *italic*, ~~old~~ and `code`.", "Some bold, italic, old and code."),
        ("# Title\n\nBody", "Title.\n\nBody"),
        ("## Done!\nBody", "Done!\n\nBody"),
        ("Title\n---\nBody", "Title.\n\nBody"),
        ("- one\n- two.\n  - three", "one. two. three."),
        ("3. c\n4. d", "3. c. 4. d."),
        ("- [ ] open\n- [x] done", "open. done."),
        ("[link](http://a.b) ![picture](c.png)", "link picture"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a, b.\n\n1, 2."),
        ("one\n\n---\n\ntwo", "one\n\ntwo"),
        ("> quoted\n> text", "quoted text"),
        ("```py\nx = 1\n```", "x = 1"),
        ("a<br>b<p>c</p>d", "a b\n\nc\n\nd"),
        ("<ul><li>One</li><li>Two</li></ul>", "One\n\nTwo"),
        ("Fish &amp; chips &lt;3", "Fish & chips"),
        ("<!-- gone --><div class='x'>kept</div>", "kept"),
        ("x<script>alert('no')</script>y", "xy"),
        ("As said.[1] And[2] [3]", "As said. And[2] [3]"),
        ("• one\n• two", "one. two."),
        ("Hello <laugh>you</laugh>", "Hello you"),
    ],
)
def test_markup_is_removed(typed, plain):
    assert text(typed) == plain


@pytest.mark.parametrize(
    "typed",
    [
        "2 * 3 < 7 and 5*3*2 = 30",
        "a_b and snake_case_name",
        "#hashtag and C# and F#",
        "List<T> and a<b and c>d",
        "3 > 2 but 1 < 2",
        "the * star _ alone ~ here",
        "5 ~ 6 and 7 ~ 8",
        "f(x)[0] = y[1]",
        "C:\\Users\\ann",
        "3 + 4 - 2",
    ],
)
def test_keeps_text_that_only_looks_like_markup(typed):
    assert text(typed) == typed


@pytest.mark.parametrize(
    ("typed", "plain"),
    [
        ("one\ntwo", "one two"),
        ("Shopping\nMilk\nEggs", "Shopping. Milk. Eggs"),
        ("Roses are red,\nViolets are blue", "Roses are red, Violets are blue"),
        ("This line of prose was wrapped by an editor and goes on in\nParis without a stop.", None),
        ("one\n\n\n\ntwo\n", "one\n\ntwo"),
    ],
)
def test_lines_are_joined(typed, plain):
    assert text(typed) == (plain if plain is not None else typed.replace("\n", " "))


def test_code_is_marked_for_normalization():
    assert markup.to_text("Run `x == y`") == f"Run {marks.CODE_START}x == y{marks.CODE_END}"


class TestSsml:
    @pytest.mark.parametrize(
        ("typed", "plain"),
        [
            ("<speak>Hi</speak>", "Hi"),
            ('<speak><say-as interpret-as="characters">FBI</say-as></speak>', "F B I"),
            ('<speak><say-as interpret-as="digits">2024</say-as></speak>', "two zero two four"),
            ('<speak><say-as interpret-as="ordinal">21</say-as></speak>', "twenty-first"),
            (
                '<speak><say-as interpret-as="cardinal">-1,200.5</say-as></speak>',
                "minus one thousand two hundred point five",
            ),
            (
                '<speak><say-as interpret-as="date" format="dmy">3/4/2024</say-as></speak>',
                "April third, twenty twenty-four",
            ),
            ('<speak><say-as interpret-as="date" format="ym">2024-05</say-as></speak>', "May, twenty twenty-four"),
            ('<speak><say-as interpret-as="time">5:30pm</say-as></speak>', "five thirty p.m."),
            ('<speak><say-as interpret-as="telephone">555-1234</say-as></speak>', "five five five, one two three four"),
            ('<speak><say-as interpret-as="unheard-of">as it is</say-as></speak>', "as it is"),
            ('<speak><sub alias="World Wide Web">WWW</sub></speak>', "World Wide Web"),
            ('<speak><phoneme alphabet="ipa" ph="x">pecan</phoneme></speak>', "pecan"),
            ('<speak><phoneme alphabet="ipa" ph="x" alias="pee can">pecan</phoneme></speak>', "pee can"),
            ('<speak><prosody rate="slow">slow <emphasis>now</emphasis></prosody></speak>', "slow now"),
            ("<speak><p>One</p><p>Two</p></speak>", "One\n\nTwo"),
            ("<speak><s>One</s><s>Two!</s></speak>", "One. Two!"),
            ("<speak>a <unknown x='1'>b</unknown> &amp; c</speak>", "a b & c"),
            ("<speak>a <audio src='x'><desc>sound</desc>b</audio></speak>", "a b"),
            ("<?xml version='1.0'?><speak>Hi</speak>", "Hi"),
            ("<speak>one<br/>two<br>three</speak>", "one two three"),
            ("<speak>Tom & Jerry, R&B, a < b</speak>", "Tom & Jerry, R&B, a < b"),
            ("<speak>&ldquo;fine&rdquo; &mdash; &bogus; &#8364;</speak>", '"fine" — &bogus; €'),
            ('wait<break strength="none">now <sub alias="A &amp; B">AB</sub>', "wait now A & B"),
            ('wait<break strength="none"></break>now', "wait now"),
        ],
    )
    def test_a_document_is_read(self, typed, plain):
        assert text(typed) == plain

    @pytest.mark.parametrize(
        "typed",
        [
            "<speak>Open <b>only",
            "<speak></p>Crossed</speak>",
            '<!DOCTYPE x [<!ENTITY a "b">]><speak>&a;</speak>',
        ],
    )
    def test_what_is_not_well_formed_is_read_as_markup(self, typed):
        assert ssml.read(typed, say_as) is None
        assert "<s" not in text(typed)

    @pytest.mark.parametrize(
        ("typed", "plain"),
        [
            ('# Title\n\nSee **bold** <break time="1s"/> and [docs](https://a.b).\n\n- one\n- two',
             "Title.\n\nSee bold and docs.\n\none. two."),
            ('It is *<sub alias="World Wide Web">WWW</sub>*, <say-as interpret-as="digits">12</say-as>.',
             "It is World Wide Web, one two."),
            ('Write `<break time="1s"/>` or `<sub alias="a">b</sub>`.',
             'Write <break time="1s"/> or <sub alias="a">b</sub>.'),
            ("<div>Hello</div> use `<b>` and <code>&lt;i&gt;</code>.", "Hello\n\nuse <b> and <i>."),
            ("<speak>One</speak><speak>Two</speak>", "One\n\nTwo"),
            ('<say-as interpret-as="spell-out">C++ a_1</say-as>', "C plus plus A underscore one"),
        ],
    )  # fmt: skip
    def test_elements_within_markdown_are_read_and_code_is_kept(self, typed, plain):
        assert text(typed) == plain

    @pytest.mark.parametrize(
        ("typed", "plain", "position"),
        [("Hi [pause 0.5] there.", "Hi there.", 3), ("Wait here [pause 0.5s]. Then go.", "Wait here. Then go.", 11)],
    )
    def test_a_pause_without_a_unit_has_seconds_and_a_mark_after_it_ends_the_words_before(self, typed, plain, position):
        result = spoken(typed, "english")
        assert (result.text, [tuple(each) for each in result.pauses]) == (plain, [(position, 0.5)])

    def test_depth_costs_nothing(self):
        assert text(f"<speak>{'<prosody>' * 20000}deep{'</prosody>' * 20000}</speak>") == "deep"

    def test_entities_cannot_multiply(self):
        bomb = '<!DOCTYPE s [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]><speak>&b;</speak>'
        assert len(text(bomb)) < 2 * len(bomb)

    def test_other_languages_keep_what_say_as_encloses(self):
        typed = '<speak><say-as interpret-as="digits">12</say-as></speak>'
        assert spoken(typed, "german").text == "12"


@pytest.mark.parametrize(
    "sound",
    ["[laughs]", "[LAUGHS]", "[nervous laughter]", "[laughs nervously]", "[clear throat]", "[snorting]", "[ sighs ]"],
)
def test_sounds_in_brackets_are_not_spoken(sound):
    assert spoken(f"{sound} Right.", "english").text == "Right."


@pytest.mark.parametrize(
    ("typed", "word"), [("[music]", "music"), ("[very loud]", "loud"), ("[laughs](//a.b)", "laughs")]
)
def test_other_words_in_brackets_are_spoken(typed, word):
    assert word in spoken(f"See {typed} here.", "english").text
