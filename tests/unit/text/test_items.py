"""What people type is spoken as expected, class by class."""

import pytest

from server.text.frontend import spoken

from .readings import CLASSES, items, least_share, words


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_has_at_least_forty_items(name):
    assert len(items(name)) >= 40
    assert len({item.typed for item in items(name)}) == len(items(name))


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("held_out", [False, True], ids=["seen", "held-out"])
def test_enough_items_of_a_class_are_spoken_exactly(name, held_out):
    part = [item for item in items(name) if item.held_out == held_out]
    wrong = {item.typed: words(spoken(item.typed, "english").text) for item in part}
    wrong = {item.typed: wrong[item.typed] for item in part if not item.is_right(wrong[item.typed])}
    assert 1 - len(wrong) / len(part) >= least_share(name), wrong
