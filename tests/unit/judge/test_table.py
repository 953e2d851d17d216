"""Figures are compared with their bounds as rounded for display."""

import pytest

from scripts.judge.figures import corpus_wer, mean
from scripts.judge.table import Figure, render


@pytest.mark.parametrize(
    ("value", "verdict"),
    [(3.96, "aim"), (4.04, "aim"), (4.06, "reach"), (8.0, "reach"), (8.2, "below"), (None, "missing")],
)
def test_lower_is_better_by_default(value, verdict):
    assert Figure("WER", value, "%", reach=8, aim=4).verdict == verdict


@pytest.mark.parametrize(("value", "verdict"), [(4.0, "aim"), (3.996, "aim"), (3.6, "reach"), (3.4, "below")])
def test_higher_is_better_if_declared(value, verdict):
    assert Figure("MOS", value, reach=3.5, aim=4.0, more_is_better=True).verdict == verdict


def test_a_figure_without_bounds_has_no_verdict():
    assert Figure("characters a second", 15.2).verdict == ""


def test_the_table_has_one_line_per_figure_and_aligned_columns():
    table = render([Figure("WER", 3.2, "%", reach=8, aim=4), Figure("streams", 6, "count", reach=2, aim=6)])
    head, _, first, second = table.splitlines()
    assert first.split() == ["WER", "3.2", "%", "8.0", "%", "4.0", "%", "aim"]
    assert second.startswith("streams")
    assert head.index("value") + len("value") == first.index("3.2 %") + len("3.2 %")


def test_the_corpus_error_rate_weights_sentences_by_words():
    rows = [{"moonshine": {"errors": 1, "words": 2}}, {"moonshine": {"errors": 0, "words": 8}}]
    assert corpus_wer(rows, "moonshine") == pytest.approx(0.1)
    assert corpus_wer(rows, "whisper") is None


def test_a_mean_uses_only_rows_with_the_score():
    assert mean([{"mos": 4.0}, {"mos": 3.0}, {}], "mos") == pytest.approx(3.5)
    assert mean([{}], "mos") is None
