"""Formulas: what is one, and that any can be read."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.text.english.formula_words import ACCENTS, FUNCTIONS, LARGE, OPERATORS, RELATIONS, STYLES, TEXT
from server.text.english.formulas import speak_formula
from server.text.frontend import spoken

NAMES = [*ACCENTS, *FUNCTIONS, *LARGE, *OPERATORS, *RELATIONS, *STYLES, *TEXT, "frac", "sqrt", "binom", "begin", "end"]
COMMANDS = [f"\\{name}" for name in NAMES if name.isalpha()]
COMMANDS += [r"\begin{cases}", r"\end{cases}", r"\mathbb", r"\pmod", r"\vec", r"\left", r"\lfloor", r"\alpha", r"\what"]
SIGNS = [*"{}()[]^_|&!'+-=,./ xX12", r"\\", r"\{", r"\}", r"\,", r"\$"]


@settings(max_examples=200)
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
    ],
)
def test_dollar_signs_of_prices_enclose_no_formula(text):
    assert spoken(text, "english", ("markup",)).text == text


@pytest.mark.parametrize("typed", ["$x^2$", "$$x^2$$", r"\(x^2\)", r"\[x^2\]", "$$\nx^2\n$$"])
def test_every_mark_of_latex_encloses_a_formula(typed):
    assert spoken(f"So {typed} is it.", "english").text == "So X squared is it."


def test_without_normalization_a_formula_loses_only_its_marks():
    assert spoken(r"So $\frac{a}{b}$ is \(x^2\).", "german").text == r"So \frac{a}{b} is x^2."
