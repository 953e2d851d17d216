"""Splitting of long texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.long_text.pieces import CLAUSE_PAUSE, PARAGRAPH_PAUSE, SENTENCE_PAUSE, SHORTEST, Piece
from server.long_text.pieces import pieces as pieces_of
from server.long_text.sentences import sentences, weight

LONGEST = 300


def pieces(text: str, language: str, longest: int = LONGEST) -> list[str]:
    """The pieces of a text that is split at every sentence."""
    return [piece.text for piece in pieces_of(text, language, longest, fill=False)]


def filled(text: str, longest: int = 100) -> list[Piece]:
    """The pieces of a text whose sentences are joined up to a length."""
    return list(pieces_of(text, "english", longest, fill=True))


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
        assert pieces(text, language if named else "auto") == expected


def test_short_sentences_are_joined_with_a_neighbor() -> None:
    assert pieces("Yes. I have never been there before. No!", "english") == ["Yes. I have never been there before. No!"]


def test_a_sentence_goes_on_in_lower_case_after_an_exclamation_or_a_question() -> None:
    quoted = ["What a beautiful day! exclaimed her brother.", "Where are we going now? asked the old man."]
    assert pieces(" ".join(quoted), "english") == quoted
    typed = ["how are you doing today?", "i am fine and well again!", "see you tomorrow then."]
    assert pieces(" ".join(typed), "english") == typed


@pytest.mark.parametrize(
    "text", ["Hier soir nous avons rencontré M. Dupont à la gare.", "Im Jahr 1939 begann der 2. Weltkrieg in Polen."]
)
def test_an_initial_or_an_ordinal_number_does_not_end_a_piece(text: str) -> None:
    language = "french" if "M." in text else "german"
    assert pieces(text, language) == [text]


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
    parts = pieces(text, "auto")
    assert len(parts) > 1
    assert {part[-1] for part in parts[:-1]} == {end}
    assert all(LONGEST / 4 <= weight(part) <= LONGEST for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_a_paragraph_ends_a_sentence_and_a_line_break_does_not() -> None:
    text = "A heading that has no stop\r\n\r\nThis line was broken\nby an old program."
    assert pieces(text, "english") == [
        "A heading that has no stop",
        "This line was broken by an old program.",
    ]


def test_text_that_cannot_be_spoken_is_dropped() -> None:
    text = f"This is the first part of it.\n\n{'* ' * 500}\n\nAnd this is the second part."
    assert pieces(text, "english") == ["This is the first part of it.", "And this is the second part."]
    assert pieces("..." * 1000, "english") == ["." * LONGEST]


def test_splitting_is_lazy() -> None:
    book = "It was a dark and stormy night, and nobody was there. " * 3700
    iterator = pieces_of(book, "english", LONGEST, fill=False)
    assert next(iterator).text == "It was a dark and stormy night, and nobody was there."
    assert sum(1 for _ in iterator) == 3699


def test_filled_pieces_have_whole_sentences_of_one_paragraph() -> None:
    sentence = "It was a dark and stormy night there."
    text = " ".join([sentence] * 3) + "\n\n" + " ".join([sentence] * 2)
    assert filled(text) == [
        Piece(f"{sentence} {sentence}"),
        Piece(sentence, SENTENCE_PAUSE),
        Piece(f"{sentence} {sentence}", PARAGRAPH_PAUSE),
    ]


def test_the_parts_of_a_long_sentence_have_shorter_pauses() -> None:
    text = ", ".join(["so it went on and on"] * 8) + ". And then it ended there, late at night, and all was good."
    found = filled(text)
    assert [piece.pause for piece in found] == [0.0, CLAUSE_PAUSE, SENTENCE_PAUSE]
    assert " ".join(piece.text for piece in found) == text


def test_a_small_last_piece_takes_a_sentence_from_the_one_before() -> None:
    sentence = "It was a dark and stormy night there."
    last = "I was very late for it."
    assert [piece.text for piece in filled(f"{sentence} {sentence} {last}", 90)] == [sentence, f"{sentence} {last}"]


def test_a_very_short_paragraph_is_joined_with_the_next_and_the_last_one_with_the_one_before() -> None:
    text = "Summary.\n\nIt was a dark and stormy night, and nobody was there at all to see it.\n\nThe end."
    assert [piece.text for piece in filled(text)] == [" ".join(text.split())]
    assert len(filled(text, 85)) == 2


@given(st.text(min_size=1).filter(str.strip), st.sampled_from([*SENTENCES, "auto"]))
def test_splitting_keeps_all_text_and_bounds_the_weight(text: str, language: str) -> None:
    assert "".join("".join(sentences(text, language)).split()) == "".join(text.split())
    parts = pieces(text, language)
    assert parts
    assert all(part and weight(part) <= LONGEST for part in parts)


@given(st.text(alphabet="aB1.,!? \n\"'“”。、字", min_size=1, max_size=3000).filter(str.strip))
def test_all_words_are_kept_in_order(text: str) -> None:
    def words(given: str) -> str:
        return "".join(filter(str.isalnum, given))

    parts = pieces(text, "english")
    assert words("".join(parts)) == words(text)
    assert sum(weight(part) < SHORTEST for part in parts) <= len(parts) // 2 + 1
    found = filled(text)
    assert words("".join(piece.text for piece in found)) == words(text)
    assert all(weight(piece.text) <= 100 for piece in found)
    assert found[0].pause == 0
    assert all(CLAUSE_PAUSE <= piece.pause <= PARAGRAPH_PAUSE for piece in found[1:])
