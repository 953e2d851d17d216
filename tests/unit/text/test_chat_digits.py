"""The digits 2 and 4 in chats."""

import pytest

from server.text.frontend import spoken

from .readings import words


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("dont b l8 2 class", "dont be late to class"),
        ("yall r 2 funny", "yall are too funny"),
        ("cant w8 2 c u!!", "cant wait to see you"),
        ("u 2 r cute 2gether, imma b l8", "you two are cute together imma be late"),
        ("2 be honest idc, me n u", "to be honest i dont care me and you"),
        ("need a +1 4 the wedding", "need a plus one for the wedding"),
        ("i luv u 2 bae, wats up w dat", "i luv you too bae whats up with dat"),
        ("b safe, pls b on time 4 once", "be safe please be on time for once"),
        ("txt when ur home, idk y but ok", "text when youre home i dont know why but okay"),
        ("I know y, x and z.", "i know y x and z"),
        ("2 cute 4 words", "too cute for words"),
        ("love u 2!", "love you too"),
        ("same here tbh, nothing 2 do", "same here to be honest nothing to do"),
        ("she's my bff 4 life", "shes my b f f for life"),
        ("r we still on 4 dinner?", "are we still on for dinner"),
        ("np bro, txt me", "no problem bro text me"),
    ],
)
def test_a_digit_is_a_word_in_a_chat(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("u got 2 cats and 4 dogs", "you got two cats and four dogs"),
        ("see u at 4 the latest", "see you at four the latest"),
        ("We gave 2 the prize.", "we gave two the prize"),
        ("2 cups for me", "two cups for me"),
        ("There are 2 big dogs.", "there are two big dogs"),
        ("im in room 4 my dude", "im in room four my dude"),
    ],
)
def test_a_digit_is_a_number_elsewhere(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said
