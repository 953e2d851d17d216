"""References of people: pieces of recordings, backgrounds, and the sentences of the classes."""

import numpy as np
import pytest

from scripts.judge.backgrounds import BACKGROUNDS, SNR_DB, add_background
from scripts.judge.class_items import read_items
from scripts.judge.clips import read_clips
from scripts.judge.pieces import join_pieces, split_at_pauses
from scripts.judge.sound import read

RATE = 16_000


def tone(seconds):
    return (0.3 * np.sin(2 * np.pi * 220 * np.arange(round(seconds * RATE)) / RATE)).astype(np.float32)


def test_a_long_recording_is_split_at_its_pauses_and_a_short_one_is_not():
    pause = np.zeros(RATE // 2, np.float32)
    long = np.concatenate([part for seconds in (4, 5, 6) for part in (tone(seconds), pause)])
    assert [round(len(piece) / RATE) for piece in split_at_pauses(long, RATE)] == [4, 5, 6]
    assert len(split_at_pauses(np.concatenate((tone(3), pause, tone(3))), RATE)) == 1


def test_pieces_are_joined_to_about_the_length_and_too_long_ones_are_left_out():
    pieces = [tone(2), tone(9), tone(2.5), tone(4)]
    joined = join_pieces(pieces, 5, RATE)
    assert len(joined) / RATE == pytest.approx(2 + 0.25 + 2.5, abs=0.01)
    assert join_pieces(pieces[:1], 5, RATE) is None


@pytest.mark.parametrize("kind", BACKGROUNDS)
def test_a_background_has_the_stated_level(kind):
    voices = [read(clip.file)[0] for clip in read_clips().unseen[:3]]
    quiet = 0.1 * tone(3)
    background = add_background(quiet, RATE, kind, voices) - quiet
    assert 10 * np.log10(np.mean(quiet**2) / np.mean(background**2)) == pytest.approx(SNR_DB, abs=0.1)


def test_every_class_has_enough_items_and_heteronyms_have_two_readings():
    items = read_items()
    assert all(len(group) >= (30 if name == "elsewhere" else 40) for name, group in items.items())
    for item in items["heteronyms"]:
        assert item.right and item.wrong and item.right != item.wrong
        assert "{" not in item.right and "|" not in item.wrong
    assert items["acronyms"][0].spoken == "The H T T P server returned an error."
