"""Splitting of long texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.long_text.pieces import LONGEST, SHORTEST, pieces, sentences, weight

CONTEXT = 4096

SENTENCES = {
    "english": [
        "Dr. Smith paid $3.50 at 5 p.m. on Jan. 3, in cash.",
        'He said, "Stop. Now!" and ran to the U.S. embassy.',
        "Mr. J. R. Smith, e.g., came too late!",
        "Did you look at www.example.com yesterday?",
    ],
    "german": [
        "Am 3. Oktober kam Dr. Müller um 5.30 Uhr an.",
        "Das kostet ca. 3,50 Euro, z. B. im Laden.",
        "„Halt!“, rief er und lief davon.",
    ],
    "italian": [
        "Il dott. Rossi arrivò alle 17.30.",
        "Costa 3,50 euro, disse il sig. Bianchi.",
        "Ma perché lo hai fatto?",
    ],
    "portuguese": ["O Sr. Silva pagou R$ 3,50 ontem.", "A Dra. Ana chegou às 17h.", "Tudo bem com a família?"],
    "spanish": ["El Sr. García pagó 3,50 euros.", "Vive en EE. UU. desde 1990.", "¿Qué pasó ayer por la noche?"],
    "french": ["Ils ont payé 3,50 euros hier.", "« Arrête ! » cria-t-il très fort.", "Que faites-vous ici ce soir ?"],
    "russian": ["В 1990 г. он жил в г. Москве.", "А. С. Пушкин родился в Москве.", "Это стоит 3,5 рубля, не больше!"],
    "chinese": ["今天天气很好，我们去公园吧！", "他说：“停下来，不要走。”", "这个东西的价格是3.5元。"],
    "japanese": ["今日は天気がとてもいいですね。", "彼は少し考えてから笑った！", "この本の価格は3.5ドルですか？"],
    "korean": ["오늘은 날씨가 정말 좋네요!", "가격은 3.5달러라고 합니다.", "내일은 어디에 가실 건가요?"],
}
UNSPACED = ("chinese", "japanese")


@pytest.mark.parametrize("language", SENTENCES)
@pytest.mark.parametrize("named", [True, False])
def test_each_sentence_is_a_piece(language: str, named: bool) -> None:
    expected = SENTENCES[language]
    text = ("" if language in UNSPACED else " ").join(expected)
    if named or language not in ("german", "italian", "portuguese", "spanish", "french"):
        assert list(pieces(text, language if named else "auto", CONTEXT)) == expected


def test_short_sentences_are_joined_with_a_neighbor() -> None:
    assert list(pieces("Yes. I have never been there before. No!", "english", CONTEXT)) == [
        "Yes. I have never been there before. No!"
    ]


@pytest.mark.parametrize(
    "text", ["Hier soir nous avons rencontré M. Dupont à la gare.", "Im Jahr 1939 begann der 2. Weltkrieg in Polen."]
)
def test_an_initial_or_an_ordinal_number_does_not_end_a_piece(text: str) -> None:
    language = "french" if "M." in text else "german"
    assert list(pieces(text, language, CONTEXT)) == [text]


@pytest.mark.parametrize(
    ("text", "end"),
    [
        (", ".join(["so it went on and on"] * 40) + ".", ","),
        ('He said: "' + " ".join(["It is what it is. I know."] * 30) + '"', "."),
        ("，".join(["今天天气很好我们去公园"] * 30) + "。", "，"),
        (" ".join(["word"] * 400), "d"),
    ],
)
def test_a_long_sentence_is_split_at_its_strongest_punctuation(text: str, end: str) -> None:
    parts = list(pieces(text, "auto", CONTEXT))
    assert len(parts) > 1
    assert {part[-1] for part in parts[:-1]} == {end}
    assert all(LONGEST / 4 <= weight(part) <= LONGEST for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_a_small_context_gives_small_pieces() -> None:
    assert max(weight(part) for part in pieces("word " * 400, "english", 512)) <= 512 // 8


def test_a_paragraph_ends_a_sentence_and_a_line_break_does_not() -> None:
    text = "A heading that has no stop\r\n\r\nThis line was broken\nby an old program."
    assert list(pieces(text, "english", CONTEXT)) == [
        "A heading that has no stop",
        "This line was broken by an old program.",
    ]


def test_text_that_cannot_be_spoken_is_dropped() -> None:
    text = f"This is the first part of it.\n\n{'* ' * 500}\n\nAnd this is the second part."
    assert list(pieces(text, "english", CONTEXT)) == ["This is the first part of it.", "And this is the second part."]
    assert list(pieces("..." * 1000, "english", CONTEXT)) == ["." * LONGEST]


def test_splitting_is_lazy() -> None:
    book = "It was a dark and stormy night, and nobody was there. " * 3700
    iterator = pieces(book, "english", CONTEXT)
    first = next(iterator)
    assert first == "It was a dark and stormy night, and nobody was there."
    assert sum(1 for _ in iterator) == 3699


@given(st.text(min_size=1).filter(str.strip), st.sampled_from([*SENTENCES, "auto"]))
def test_splitting_keeps_all_text_and_bounds_the_weight(text: str, language: str) -> None:
    assert "".join("".join(sentences(text, language)).split()) == "".join(text.split())
    parts = list(pieces(text, language, CONTEXT))
    assert parts
    assert all(part and weight(part) <= LONGEST for part in parts)


@given(st.text(alphabet="aB1.,!? \n\"'“”。、字", min_size=1, max_size=3000).filter(str.strip))
def test_all_words_are_kept_in_order(text: str) -> None:
    def words(given: str) -> str:
        return "".join(filter(str.isalnum, given))

    parts = list(pieces(text, "english", CONTEXT))
    assert words("".join(parts)) == words(text)
    assert sum(weight(part) < SHORTEST for part in parts) <= len(parts) // 2 + 1
