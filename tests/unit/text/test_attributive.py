"""Measures and amounts are singular before the noun that they describe, and plural elsewhere."""

import pytest

from server.text.frontend import spoken

from .readings import words


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("The 12 V battery died.", "the twelve volt battery died"),
        ("Buy a 2TB SSD.", "buy a two terabyte s s d"),
        ("The 1.5L turbo is quick.", "the one point five liter turbo is quick"),
        ("She won the 5 km run.", "she won the five kilometer run"),
        ("Bring 500 mg tablets.", "bring five hundred milligram tablets"),
        ("Two 2TB external drives", "two two terabyte external drives"),
        ("Slow down in a 30 mph zone.", "slow down in a thirty mile per hour zone"),
        ('Two 27" monitors', "two twenty seven inch monitors"),
        ("The 20A breaker tripped.", "the twenty amp breaker tripped"),
        ("They sailed a 10 m-long boat.", "they sailed a ten meter long boat"),
        ("My 3 hr meeting is over.", "my three hour meeting is over"),
        ("The 30 min wait was worth it.", "the thirty minute wait was worth it"),
        ("35mm film", "thirty five millimeter film"),
        ("1 (14 oz.) can beans", "one fourteen ounce can beans"),
        ("the 5' fence", "the five foot fence"),
        ("Build 5' fences.", "build five foot fences"),
        ("A train 5' late", "a train five minutes late"),
        ("It is a 2 hr flight.", "it is a two hour flight"),
        ("My 2 yr old son sings.", "my two year old son sings"),
    ],
)
def test_a_measure_that_describes_a_noun_is_singular(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("Add 250 ml water.", "add two hundred fifty milliliters water"),
        ("After 5 min run the tap.", "after five minutes run the tap"),
        ("He is 2 yrs old.", "he is two years old"),
        ("Add 3/4c sugar and 2c milk.", "add three quarters cup sugar and two cups milk"),
        ("The walk is 5 km long.", "the walk is five kilometers long"),
        ("It needs 12 V and 2 A.", "it needs twelve volts and two amps"),
        ("I walked 5 km to the house.", "i walked five kilometers to the house"),
        ("I sat in seat 20A.", "i sat in seat twenty a"),
        ("The walk is 5 km-10 km.", "the walk is five kilometers to ten kilometers"),
    ],
)
def test_another_measure_is_plural(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("A $5M Series A", "a five million dollar series a"),
        ("They raised $12M Series B.", "they raised twelve million dollar series b"),
        ("US, UK Sign $2B Trade Deal", "u s u k sign two billion dollar trade deal"),
        ("Apple to Pay €1.8bn EU Fine", "apple to pay one point eight billion euro e u fine"),
        ("$300 Million Lawsuit Settled", "three hundred million dollar lawsuit settled"),
        ("He got a $50 Visa gift card.", "he got a fifty dollar visa gift card"),
    ],
)
def test_an_amount_that_describes_a_noun_is_singular(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("It cost $5 million Tuesday.", "it cost five million dollars tuesday"),
        ("They made $5 Million in Sales.", "they made five million dollars in sales"),
        ("It rose from $65k to $82k.", "it rose from sixty five thousand to eighty two thousand dollars"),
        ("It rose from $2 to $3.", "it rose from two to three dollars"),
        ("It costs $5 million dollars.", "it costs five million dollars"),
        ("They bought $2 million dollar homes.", "they bought two million dollar homes"),
        ("It costs $2.50 in dollars.", "it costs two dollars and fifty cents in dollars"),
        ("It costs $2M-$3M.", "it costs two to three million dollars"),
    ],
)
def test_another_amount_is_plural(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("It is 2,400 V-Bucks.", "it is two thousand four hundred v bucks"),
        ("He owns 12 V-neck shirts.", "he owns twelve v neck shirts"),
        ("I like 2 K-pop bands.", "i like two k pop bands"),
    ],
)
def test_a_letter_before_a_hyphen_is_no_unit(typed: str, said: str) -> None:
    assert words(spoken(typed, "english").text) == said
