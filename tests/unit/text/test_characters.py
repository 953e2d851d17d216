"""Unicode, emoji and scripts."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.text import emoji, unicode
from server.text.frontend import spoken
from server.text.scripts import unreadable_script


@pytest.mark.parametrize(
    ("typed", "clean"),
    [
        ("“It’s” ‘fine’ «yes» „so“", '"It\'s" \'fine\' "yes" "so"'),
        ("wait… now", "wait... now"),
        ("a\u00a0b\u2009c\u3000d", "a b c d"),
        ("zero\u200bwidth\ufeff so\u00adft \u202eleft", "zerowidth soft left"),
        ("a\r\nb\rc\u2028d", "a\nb\nc\nd"),
        ("bell\x07 null\x00 tab\there", "bell null tab\there"),
        ("cafe\u0301", "café"),
        ("Z\u0335a\u0316\u0317\u0318l\u0301\u0302\u0303g\u0334o", "Zalgo"),
        ("ＡＢＣ１２３！", "ABC123!"),
        ("𝐇𝐞𝐥𝐥𝐨 𝓌𝑜𝓇𝓁𝒹 Ⓐ", "Hello world A"),
        ("ﬁne oﬀer", "fine offer"),
        ("٣ and ५", "3 and 5"),
        ("⑴ one ⓶ two ⒊ three", " 1  one  2  two  3  three"),
        ("non‑breaking hyphen‐ation", "non-breaking hyphen-ation"),
        ("m² and ½ → x – y — z", "m² and ½ → x – y — z"),
        ("你好，世界！", "你好，世界！"),
        ("1⁄2 and 5㎏ for ￥500, Ⅳ", "1/2 and 5kg for ¥500, IV"),
        ("hel\u200dlo wor\u200cld", "hello world"),
    ],
)
def test_equivalent_characters_become_the_same(typed, clean):
    assert unicode.clean(typed) == clean
    assert unicode.clean(clean) == clean


@given(st.text())
def test_cleaning_leaves_no_control_characters(text):
    cleaned = unicode.clean(text)
    assert not any(unicodedata.category(each) == "Cc" for each in cleaned if each not in "\n\t")


@pytest.mark.parametrize(
    ("typed", "dropped"),
    [
        ("Great job! 🎉", "Great job!"),
        ("👩‍💻 codes 👋🏽!", "codes!"),
        ("🇺🇸 and 🏴󠁧󠁢󠁥󠁮󠁧󠁿 flags", "and flags"),
        ("Press 1️⃣ or #️⃣ now", "Press 1 or now"),
        ("I ❤️ you", "I you"),
        ("Hi :-) there ;) :D", "Hi there"),
        ("I <3 you", "I you"),
        ("if x <3 then", "if x <3 then"),
        ("👨‍👩‍👧‍👦👨‍👩‍👧‍👦 so x <3 holds", "so x <3 holds"),
        ("ratio 3:2, C:/, a:b, (8)", "ratio 3:2, C:/, a:b, (8)"),
        ("83 cats for $4.83, 8) seat 8D, x =3", "83 cats for $4.83, 8) seat 8D, x =3"),
        ("© 2024 ™ → ✓", "© 2024 ™ →"),
        ("no emoji at all", "no emoji at all"),
        ("Thanks ಠ_ಠ and ヽ(^o^)丿 (╯°□°)╯︵ ┻━┻ bye", "Thanks and bye"),
        ("naïve (w/o) (5€) (é)", "naïve (w/o) (5€) (é)"),
    ],
)
def test_emoji_are_dropped(typed, dropped):
    assert emoji.drop(typed).strip() == dropped


@pytest.mark.parametrize(
    ("typed", "language", "spoken_text"),
    [
        ("I ❤️ you", "english", "I love you."),
        ("I <3 you", "english", "I love you."),
        ("It has ★★★★☆.", "english", "It has four out of five stars."),
        ("Das Hotel hat ★★★★☆ bekommen.", "german", "Das Hotel hat bekommen."),
    ],
)
def test_hearts_and_stars_are_words_in_english_only(typed, language, spoken_text):
    assert spoken(typed, language).text == spoken_text


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ("Great job! 🎉", "Great job! party popper"),
        ("👋🏽", "waving hand"),
        ("👍🏿!", "thumbs up!"),
        ("🇫🇷", "flag F R"),
        ("❤️", "heart"),
        ("Press 1️⃣", "Press 1"),
    ],
)
def test_emoji_are_named_on_request(typed, named):
    assert emoji.name(typed).strip() == named


@pytest.mark.parametrize(
    ("text", "languages", "script"),
    [
        ("Hello, Zürich & Łódź: naïve façade, Nguyễn", ["english"], None),
        ("こんにちは", ["english"], "Hiragana"),
        ("テスト", ["english"], "Katakana"),
        ("Hi 你好", ["english"], "Han"),
        ("안녕", ["english"], "Hangul"),
        ("привет", ["english", "German"], "Cyrillic"),
        ("привет", ["english", "Russian"], None),
        ("你好", ["Chinese"], None),
        ("日本語です", ["japanese"], None),
        ("日本語です", ["chinese"], "Hiragana"),
        ("مرحبا", ["english"], "Arabic"),
        ("שלום", ["english"], "Hebrew"),
        ("नमस्ते", ["english"], "Devanagari"),
        ("สวัสดี", ["english"], "Thai"),
        ("5 Ω, π and µm", ["english"], None),
        ("καλημέρα", ["english"], "Greek"),
        ("𝐇𝐞𝐥𝐥𝐨 ＡＢＣ 🎉 ½ ²", ["english"], None),
        ("ᏣᎳᎩ", ["english"], "Cherokee"),
        ("", ["english"], None),
    ],
)
def test_names_a_script_that_no_language_of_the_checkpoint_uses(text, languages, script):
    assert unreadable_script(text, languages) == script
