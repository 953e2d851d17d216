"""The table of voices has the errors and opinions of each voice."""

from scripts.judge.voices import render


def test_each_voice_has_its_own_figures():
    rows = [
        {"moonshine": {"errors": 1, "words": 10}, "mos": 4.0},
        {"moonshine": {"errors": 0, "words": 10}, "mos": 3.0},
    ]
    heading, ava, bella = render({"ava": rows, "bella": rows[1:]}).splitlines()
    assert heading.split() == ["voice", "sentences", "WER,", "Moonshine", "MOS", "lowest"]
    assert ava.split() == ["ava", "2", "5.0", "%", "3.50", "3.00"]
    assert bella.split() == ["bella", "1", "0.0", "%", "3.00", "3.00"]
