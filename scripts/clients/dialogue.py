"""A dialogue of twenty turns as a language model writes it, with what is hard for sentence splitters."""

from __future__ import annotations

import re

TURNS = (
    "Sure! I can help with that.",
    "Well, let me see... The next train leaves at 5:45 p.m. from platform 3.",
    "Dr. Smith is out today. Mrs. Jones can see you at ten, though.",
    "It costs $3.50 per cup; two cups are $7. Anything else?",
    "Yes.",
    "No, I'm afraid not \u2014 the shop closes early on Sundays.",
    "Here is the plan:\n\n1. Boil the water.\n2. Add the tea.\n3. Wait.",
    'She said, "Come in!" and closed the door.',
    "Hmm... I am not sure. Could you say that again?",
    "The U.S. team won 3-2. What a game!",
    "**Great question.** The answer is *probably* yes.",
    "OK",
    "That is version 2.5.1, released on Jan. 5th.",
    "Really?! You did all that? Alone?",
    "Thanks for waiting! \U0001f642",
    "I would, if I could, but the road to the lake is closed because of the snow",
    "One moment, please ...   ",
    "Options: red, green, or blue. Which one?",
    "A.",
    "Goodbye, and take care of yourself!\n",
)


def tokens(text: str) -> list[str]:
    """Return ``text`` in pieces like the tokens of a language model: a word, or a part of a long one."""
    return re.findall(r"\s*\S{1,6}|\s+", text)


def words(text: str) -> list[str]:
    """Return the words of ``text`` without punctuation, markup and emoji."""
    return re.findall(r"[a-z0-9]+", text.lower())
