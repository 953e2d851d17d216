"""Subjects, degrees and schools."""

import pytest

from server.text.frontend import spoken

from .readings import words


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("Ph.D. cand., Dept. of Chem. Eng.", "p h d candidate department of chemical engineering"),
        ("BS in Comp. Sci., MA in Econ.", "b s in computer science m a in economics"),
        ("Dept. of Elec. Eng. & Comp. Sci.", "department of electrical engineering and computer science"),
        ("She majored in Poli. Sci.", "she majored in political science"),
        ("M.A. in Eng. Lit., U. of Chicago", "m a in english literature university of chicago"),
        ("Prof. of Phys. Ed.", "professor of physical education"),
        ("The U. of M is big.", "the u of m is big"),
        ("It's lit. Eng is next.", "its lit eng is next"),
    ],
)
def test_subjects_of_departments_and_degrees_are_words(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("Ohio St. 42, Michigan 27", "ohio state forty two michigan twenty seven"),
        (
            "No. 3 Ohio St. beat No. 12 Iowa St. 31-10.",
            "number three ohio state beat number twelve iowa state thirty one to ten",
        ),
        ("He lives at 12 Ohio St. in town.", "he lives at twelve ohio street in town"),
    ],
)
def test_a_state_before_st_is_a_school_in_sports_and_else_a_street(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said
