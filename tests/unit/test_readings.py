"""Heteronyms: the context of a word decides its reading, or leaves it to the talker."""

import gzip
from pathlib import Path

import pytest

from engine.prompt.lexicon import LEXICON_FILE
from engine.prompt.readings import CONTEXT, NAMES, WORDS, reading
from scripts.train_pocket.lexicon_file import READINGS

ROOT = Path(__file__).parents[2]
TEXTS = [
    ("I [read] the whole report yesterday evening.", "past"),
    ("Please [read] the label before you open it.", None),
    ("She has already [read] that novel twice.", "past"),
    ("Can you [read] music?", None),
    ("The old pipes were made of [lead].", "metal"),
    ("Let me [lead] you through the garden.", None),
    ("[Lead] is heavier than iron.", "metal"),
    ("The [wind] blew my hat away.", None),
    ("Remember to [wind] the clock on Sunday.", "turn"),
    ("A cold [wind] came from the north.", None),
    ("A single [tear] ran down her cheek.", "drop"),
    ("Be careful not to [tear] the envelope.", "rip"),
    ("There is a [tear] in my sleeve.", "rip"),
    ("She tied the ribbon in a [bow].", None),
    ("The actors took a [bow] at the end.", "bend"),
    ("He shot the arrow with a wooden [bow].", None),
    ("They [live] in a small town.", None),
    ("The concert was broadcast [live].", "now"),
    ("[Close] the window, please.", None),
    ("The shop is very [close] to my house.", "near"),
    ("He [wound] the rope around the post.", "turned"),
    ("The nurse cleaned the [wound].", None),
    ("The [dove] sat on the roof.", "bird"),
    ("She [dove] into the cold lake.", "dive"),
    ("The farmer keeps a [sow] and nine piglets.", "pig"),
    ("You must [sow] the seeds in April.", "seed"),
    ("They had a [row] about the money.", "quarrel"),
    ("We sat in the last [row] of the theater.", None),
    ("Please [row] the boat to the shore.", None),
    ("The [bass] swam under the pier.", "fish"),
    ("He plays the [bass] in a jazz band.", "music"),
    ("I have no [use] for that.", "noun"),
    ("May I [use] your telephone?", None),
    ("What is your house [number]?", None),
    ("My foot is getting [number] by the minute.", "numb"),
    ("My foot is getting number by the [minute].", None),
    ("Take one [minute] to think.", None),
    ("The difference is [minute].", "tiny"),
    ("Have you [read] the instructions?", "past"),
    ("He [read] the letter twice and cried.", "past"),
    ("I will [read] it to you tonight.", None),
    ("This book is widely [read] in schools.", "past"),
    ("Did he [read] the email?", None),
    ("Old paint can contain [lead], so be careful.", "metal"),
    ("She took the [lead] in the second half.", None),
    ("[Lead] poisoning is dangerous for children.", "metal"),
    ("The [lead] singer forgot the words.", None),
    ("The roads [wind] through the hills.", "turn"),
    ("The river [winds] through the valley.", "turn"),
    ("We had to [wind] up the old watch.", "turn"),
    ("The [wind] is picking up.", None),
    ("I [wound] up in the wrong town.", "turned"),
    ("The path [wound] around the lake.", "turned"),
    ("The [wound] needs a clean bandage.", None),
    ("They bowed, and we had to [bow] to the king.", "bend"),
    ("She stood at the [bow] of the ship.", "bend"),
    ("He put a red [bow] on the present.", None),
    ("The band played [live] music all night.", "now"),
    ("We are going [live] on television at nine.", "now"),
    ("I [live] next to the station.", None),
    ("My friends [live] in Boston.", None),
    ("She is a [close] friend of mine.", "near"),
    ("It was a [close] race until the end.", "near"),
    ("Please [close] your eyes.", None),
    ("Banks [close] early on Friday.", None),
    ("A white [dove] landed near us.", "bird"),
    ("He [dove] off the pier.", "dive"),
    ("The [sow] had twelve piglets.", "pig"),
    ("You reap what you [sow].", "seed"),
    ("There was a blazing [row] over dinner.", "quarrel"),
    ("The front [row] is already full.", None),
    ("He caught a [bass] in the lake.", "fish"),
    ("The [bass] guitar is too loud.", "music"),
    ("My fingers grew [number] in the cold.", "numb"),
    ("Pick a [number] between one and ten.", None),
    ("There were [minute] traces of gold.", "tiny"),
    ("Wait a [minute] for me.", None),
    ("The [use] of phones is not allowed.", "noun"),
    ("We [use] cookies on this site.", None),
    ("That is a poor [excuse].", "noun"),
    ("Please [excuse] my handwriting.", None),
    ("She felt [content] with her life.", "pleased"),
    ("They [object] to the new law.", "verb"),
    ("A strange [object] fell from the sky.", None),
    ("We want to [record] the meeting.", "verb"),
    ("She broke the world [record].", None),
    ("I attached my [resume] to the email.", "document"),
    ("Work will [resume] on Monday.", None),
    ("The [refuse] collection is on Tuesday.", "waste"),
    ("They [refuse] to pay.", None),
    ("A [tear] rolled down his face.", "drop"),
    ("Do not [tear] the paper.", "rip"),
    ("Child [abuse] is a serious crime.", "noun"),
    ("The files on the disk had been [read] before.", "past"),
    ("I have never [read] it.", "past"),
    ("What I [read] last night was good.", "past"),
    ("Go and put the tea down this very [minute].", None),
    ("The lid of the box is [close] by.", "near"),
    ("It [wound] its way up the hill.", "turned"),
    ("Watch it [live].", "now"),
    ("Where do you [live]?", None),
    ("I can [live] with that.", None),
    ("They take the [lead] in research.", None),
    ("It is of no [use].", "noun"),
    ("Tools that [use] electricity get hot.", None),
    ("The largest [number] of people came.", None),
    ("I am getting [number] two of the series.", None),
    ("We record what we [sow]", "seed"),
    ("She gave a deep [bow].", "bend"),
    ("The dog has to [bow] its head.", None),
    ("He wants to resume the talks on his [resume].", "document"),
    ("Please [record] the show.", "verb"),
    ("They broke a [record] this year.", None),
    ("They don't [object].", "verb"),
    ("We're [close] to the end.", "near"),
    ("I’ve [read] it.", "past"),
    ("[Wind] the clock.", "turn"),
    ("READ IT: I HAVE [READ] IT.", "past"),

]  # fmt: skip


def reading_of(text):
    """The reading of the word in brackets."""
    before, _, rest = text.partition("[")
    word, _, after = rest.partition("]")
    assert word.lower() in WORDS
    return reading(word.lower(), before[-CONTEXT:], after[:CONTEXT])


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_the_context_decides_the_reading(text, expected):
    assert reading_of(text) == expected


def test_no_text_gets_a_wrong_reading():
    """250 texts are by an author who did not know the rules, the others by one who looked for errors of the rules."""
    lines = (Path(__file__).parent / "items" / "readings.tsv").read_text(encoding="utf-8").splitlines()
    decided, wrong = 0, []
    for line in lines:
        text, expected = line.split("\t")
        found = reading_of(text)
        decided += found is not None
        if found not in (None, expected):
            wrong.append((found, line))
    assert wrong == []
    assert decided >= 120


def test_the_lexicon_of_the_included_checkpoint_has_every_reading():
    lines = gzip.decompress((ROOT / "models" / "pocket" / LEXICON_FILE).read_bytes()).decode().splitlines()
    entries = {tuple(line.partition(" ")[0].split("/")) for line in lines if "/" in line}
    assert entries == NAMES
    assert {line for line in lines if "/" in line} == {" ".join(entry) for entry in READINGS.items()}
