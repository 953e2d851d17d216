"""Abbreviations that a word or a number beside them decides."""

import pytest

from server.text.frontend import spoken

from .readings import words


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("Temp. job in a mfg. firm", "temporary job in a manufacturing firm"),
        ("The temp. dropped.", "the temperature dropped"),
        ("Hon. mention; 2nd pl.", "honorable mention second place"),
        ("Hon. Ann Lee", "honorable ann lee"),
        ("the 4th Amend. case", "the fourth amendment case"),
        ("3rd ed., rev. & enl.", "third edition revised and enlarged"),
        ("Inv. No. 12, chk. #118, cl. 2", "invoice number twelve check number one hundred eighteen clause two"),
        ("10 yrs. exp. req.", "ten years experience required"),
        ("See example.org. It is free.", "see example dot org it is free"),
        ("It ran without exec. Then it stopped.", "it ran without exec then it stopped"),
        ("Col. Lee, ret., and Ann Roe, exec. chef", "colonel lee retired and ann roe executive chef"),
    ],
)
def test_the_context_of_an_abbreviation_decides(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("W 4x100m: 41.02s (OR)", "w four by one hundred meters forty one point zero two seconds o r"),
        ("He has a 1.35 ERA.", "he has a one point three five e r a"),
        ("the end of an ERA", "the end of an era"),
        ("IT ISN'T OVER, SAYS IT CHIEF", "it isnt over says i t chief"),
    ],
)
def test_letters_in_brackets_and_averages_are_spelled(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("Pub. L. 117-58", "public law one seventeen fifty eight"),
        ("Bio 101 (3 cr.)", "bio one oh one three credits"),
        ("Art 300 years old", "art three hundred years old"),
        ("Call Ann x4412.", "call ann extension four four one two"),
        (
            "b. 4 Mar 1802, m. 1825, d. ca. 1870",
            "born the fourth of march eighteen oh two married eighteen twenty five died circa eighteen seventy",
        ),
        ("Ramses II (r. 1279–1213 BCE)", "ramses the second reigned twelve seventy nine to twelve thirteen b c e"),
        ("HP 45/100, MP 12/30", "h p forty five out of one hundred m p twelve out of thirty"),
        ("Refs. avail. upon req.", "references available upon request"),
        (
            "Rev. $4.1B vs. est. $3.9B",
            "revenue four point one billion dollars versus estimated three point nine billion dollars",
        ),
    ],
)
def test_references_courses_and_lives(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("HURRICANE IAN: CAT. 4", "hurricane ian category four"),
        ("I fed the cat. 4 dogs came.", "i fed the cat four dogs came"),
        ("The co. paid its supv.", "the company paid its supervisor"),
        ("NFL WK 5: CHIEFS WIN", "n f l week five chiefs win"),
        ("hw due, 5 min. walk from the stn.", "homework due five minute walk from the station"),
        ("After 5 min. drive on.", "after five minutes drive on"),
        ("hrs: 9-5 M-F; sat by appt only", "hours nine to five monday to friday saturday by appointment only"),
        ("My 5k time, 5k people", "my five thousand time five thousand people"),
        ("I ran my 5k in 20:10.", "i ran my five k in twenty ten"),
        ("a 2h30 delay at 15h30", "a two hours thirty delay at fifteen thirty"),
        ("a $10-a-day habit", "a ten dollar a day habit"),
        ("gm! im gd", "good morning im good"),
    ],
)
def test_letters_and_words_before_numbers(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("The Lt. Gov. & the Atty. Gen. spoke.", "the lieutenant governor and the attorney general spoke"),
        ("the 1st Sgt. left", "the first sergeant left"),
        ("the Rt. Rev. Msgr. O'Hara", "the right reverend monsignor ohara"),
        ("Co. C, 2nd Bn.", "company c second battalion"),
        ("Smith & Co. A new start", "smith and company a new start"),
        ("300 (est.)", "three hundred estimated"),
        ("Approx. no. of seats: 40", "approximate number of seats forty"),
        ("Vol. 2, Iss. 3, app. B", "volume two issue three appendix b"),
    ],
)
def test_titles_without_a_name_and_in_pairs(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("'AI Won't Kill Us,' he says", "a i wont kill us he says"),
        ("N.J. GOV. SIGNS THE FIFTH BILL", "n j governor signs the fifth bill"),
        ("3-ALARM FIRE ON W. 42ND ST.", "three alarm fire on west forty second street"),
        ("BYOB! The AARP and the EEOC", "b y o b the a a r p and the e e o c"),
    ],
)
def test_quoted_and_ordinary_words_in_capitals(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("Louis XIV, XV and XVI", "louis the fourteenth the fifteenth and the sixteenth"),
        ("George V or VI?", "george the fifth or the sixth"),
        ("Types I, II and III", "types one two and three"),
        ("Gen. Patton in WW II", "general patton in world war two"),
        ("It fell in A.D. 476.", "it fell in a d four hundred seventy six"),
        ("1900-2100 hrs", "nineteen hundred to twenty one hundred hours"),
        ("j/k! short term. 5 years", "just kidding short term five years"),
        ("Med. fries; med. school", "medium fries medical school"),
        ("Lat. 40° N., long. 73° W.", "latitude forty degrees north longitude seventy three degrees west"),
        ("It was too long. 73 left.", "it was too long seventy three left"),
        ("Fed. Reserve Bd., Thurs. eve. talk", "federal reserve board thursday evening talk"),
        ("Plan B is E. of town.", "plan b is east of town"),
        ("Vitamin E. Of course.", "vitamin e of course"),
        ("the Cal. and Ore. border", "the california and oregon border"),
    ],
)
def test_kings_wars_and_hours(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said
