"""Formulas: what is one, and that any can be read."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from server.text.english.formula_words import ACCENTS, FUNCTIONS, LARGE, OPERATORS, RELATIONS, STYLES, TEXT
from server.text.english.formulas import speak_formula
from server.text.frontend import spoken
from server.text.live import LiveFrontend

NAMES = [*ACCENTS, *FUNCTIONS, *LARGE, *OPERATORS, *RELATIONS, *STYLES, *TEXT, "frac", "sqrt", "binom", "begin", "end"]
COMMANDS = [f"\\{name}" for name in NAMES if name.isalpha()]
COMMANDS += [r"\begin{cases}", r"\end{cases}", r"\mathbb", r"\pmod", r"\vec", r"\left", r"\lfloor", r"\alpha", r"\what"]
SIGNS = [*"{}()[]^_|&!'+-=,./ xX12", r"\\", r"\{", r"\}", r"\,", r"\$"]


@settings(max_examples=200)
@example(["1", r"\text", r"\bar", "^", r"\bar"])
@given(st.lists(st.sampled_from(COMMANDS + SIGNS), max_size=40))
def test_any_formula_is_read_without_its_marks(tokens):
    assert not set(speak_formula(" ".join(tokens))) & set("\\{}^_&|")


@pytest.mark.parametrize("part", ["-", "x^", "{", "(", "a(", "|", "x_{-", r"\frac", r"\sqrt{", r"\text{", r"\left["])
def test_a_formula_of_any_depth_is_read(part):
    assert isinstance(speak_formula(f"x^{part * 2000}"), str)
    assert isinstance(spoken(f"${part * 80}$", "english").text, str)


@pytest.mark.parametrize(
    "text",
    [
        "It costs $5 and $10.",
        "We pay $5-$10 or $20/month, US$ or A$.",
        "Between $3M and $4M for $TSLA and $AAPL.",
        "Set $HOME/$USER first.",
        "He has $20 (US$) left.",
        "$$\n\nBurger Barn.\n\n$$\n\nTaco Town.",
    ],
)
def test_dollar_signs_of_prices_enclose_no_formula(text):
    assert spoken(text, "english", ("markup",)).text == text


@pytest.mark.parametrize("typed", [r"$|x| < 5$", r"$\lvert x \rvert < 5$", r"$\left|x\right| < 5$"])
def test_every_kind_of_bar_encloses_an_absolute_value(typed):
    assert spoken(f"So {typed} holds.", "english").text == "So the absolute value of X is less than five holds."


@pytest.mark.parametrize("typed", ["$x^2$", "$$x^2$$", r"\(x^2\)", r"\[x^2\]", "$$\nx^2\n$$"])
def test_every_mark_of_latex_encloses_a_formula(typed):
    assert spoken(f"So {typed} is it.", "english").text == "So X squared is it."


def test_without_normalization_a_formula_loses_only_its_marks():
    assert spoken(r"So $\frac{a}{b}$ is \(x^2\).", "german").text == r"So \frac{a}{b} is x^2."


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (r"array\[i\] = b\[j\]", "Array I equals B J."),
        (r"It is open \(24/7\).", "It is open, twenty-four seven."),
        (r"On \(12/05/2024\).", "On, December fifth, twenty twenty-four."),
        (r"- \[x\] done", "Done."),
        (r"It costs \($5/mo\).", "It costs, five dollars per month."),
    ],
)
def test_escaped_brackets_enclose_ordinary_text(typed, said):
    assert spoken(typed, "english").text == said


@pytest.mark.parametrize("letters", ["gt", "ne", "pm", "mp", "ll", "le", "ni", "in"])
def test_letters_are_variables_and_no_commands(letters):
    assert spoken(f"So $v = {letters}$ holds.", "english").text == f"So V equals {' '.join(letters.upper())} holds."


@pytest.mark.parametrize(
    "text",
    [
        r"The accuracy is \(\frac{\text{number of samples that are correct}}{\text{number of all}}\) and that is all.",
        r"So $2x = \text{the number of samples that are correct}$ and that is all we need here today.",
        "See:\n\n$$\nx = a\n+ b\n$$\n\nand that is all we need here today.",
        "In TSLA ($TSLA) and for $5 or more you find all that we need here today.",
    ],
)
def test_live_text_says_a_formula_as_a_whole(text):
    front = LiveFrontend("english")
    said = [front.feed(text[start : start + 4]).text for start in range(0, len(text), 4)]
    assert "".join([*said, front.finish().text]) == spoken(text, "english").text


@pytest.mark.parametrize("opening", ["$$\n", "\\[\n", "\\( ", "$x "])
def test_live_text_goes_on_after_a_mark_that_nothing_closes(opening):
    front, said = LiveFrontend("english"), ""
    for _ in range(400):
        said += front.feed("word and more\n" if said or not opening else opening).text
        opening = ""
    assert said.count("word") > 100
