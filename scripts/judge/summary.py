"""The figures of the table, computed from scores and speed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from scripts.judge.exam import MAIN_VOICES
from scripts.judge.expected import LATE, RUNAWAY, TRUNCATED, faults
from scripts.judge.figures import RECOGNIZERS, corpus_wer, mean
from scripts.judge.parts import ExamResults, ScoredUtterance
from scripts.judge.recordings import Row
from scripts.judge.seams import seam_decibels
from scripts.judge.sound import read
from scripts.judge.speed import Speed
from scripts.judge.table import Figure

_Score = partial(Figure, more_is_better=True)
_FAULTS_OF = 300
_MAX_FAULTS = 3


def speech_figures(results: ExamResults) -> list[Figure]:
    """Return the figures of the voices, the codec and the clones."""
    main = [each.row for each in results.main]
    return [
        *(Figure(f"WER, {name.title()}", _rate(main, name), "%", reach=8, aim=4) for name in RECOGNIZERS),
        *_codec(results),
        *_voices(results),
        *_clones("x-vector", results.by_vector),
        *_clones("in context", results.in_context),
        *_faults(results.main),
        Figure("characters per second", mean(main, "chars_per_second")),
        Figure("characters per second, teacher", mean(results.original, "chars_per_second")),
        Figure("loudness, dB", mean(main, "loudness_db")),
        Figure("spectral difference at chunk boundaries, dB", _seams(results.main), reach=1, aim=0.5),
    ]


def speed_figures(speed: Speed) -> list[Figure]:
    """Return the figures of the server on two cores."""
    return [
        Figure("real-time factor, one stream", speed.real_time_factor, reach=0.4, aim=0.2),
        Figure("real-time streams sustained (up to 8)", speed.streams, "count", reach=2, aim=6, more_is_better=True),
        Figure("first audible sample over HTTP, idle", 1000 * speed.first_audible_s, "ms", reach=300, aim=150),
        Figure("make serve until ready", speed.ready_s, "s", reach=8, aim=4),
    ]


def _codec(results: ExamResults) -> list[Figure]:
    original, decoded = results.original, results.decoded
    return [
        *(
            Figure(f"codec alone, WER, {name.title()}", _rate(decoded, name), "%", reach=5, aim=2.5)
            for name in RECOGNIZERS
        ),
        *(Figure(f"  original, WER, {name.title()}", _rate(original, name), "%") for name in RECOGNIZERS),
        _Score("codec alone, Distill-MOS", mean(decoded, "mos"), reach=3.5, aim=4.0),
        Figure("  original", mean(original, "mos")),
        Figure("codec alone, similarity to the original", mean(decoded, "similarity")),
    ]


def _voices(results: ExamResults) -> list[Figure]:
    rows_by_voice: dict[str, list[Row]] = {}
    for each in [*results.main, *results.further]:
        rows_by_voice.setdefault(str(each.spoken.utterance.speaker), []).append(each.row)
    named = [row for rows in rows_by_voice.values() for row in rows]
    mos_figures = [
        _Score(f"Distill-MOS, {voice}", mean(rows, "mos"), reach=3.5, aim=4.0)
        if voice in MAIN_VOICES
        else Figure(f"Distill-MOS, {voice}", mean(rows, "mos"))
        for voice, rows in rows_by_voice.items()
    ]
    similarities = [Figure(f"  of {voice}", mean(rows, "similarity")) for voice, rows in rows_by_voice.items()]
    all_named = _Score("similarity, named voice to its teacher", mean(named, "similarity"), reach=0.6, aim=0.7)
    return [*mos_figures, all_named, *similarities]


def _clones(kind: str, clones: Sequence[ScoredUtterance]) -> list[Figure]:
    rows = [each.row for each in clones]
    return [
        _Score(f"similarity, clone {kind} to its reference", mean(rows, "similarity"), reach=0.45, aim=0.6),
        Figure("  WER, Moonshine", _rate(rows, "moonshine"), "%"),
        Figure("  Distill-MOS", mean(rows, "mos")),
        Figure("  faulty, percent", _percent(sum(bool(_faults_of(each)) for each in clones), len(clones)), "%"),
    ]


def _faults(main: Sequence[ScoredUtterance]) -> list[Figure]:
    """Return the numbers of faults. The bounds are scaled to the number of utterances."""
    faults_found = [_faults_of(each) for each in main]
    scale = len(main) / _FAULTS_OF
    return [
        Figure(
            f"faulty utterances, of {len(main)}",
            sum(map(bool, faults_found)),
            "count",
            reach=_MAX_FAULTS * scale,
            aim=0,
        ),
        *(
            Figure(f"  {fault}", sum(fault in each for each in faults_found), "count")
            for fault in (RUNAWAY, TRUNCATED, LATE)
        ),
    ]


def _seams(main: Sequence[ScoredUtterance]) -> float | None:
    """Read the recordings one by one, because all of them together are large."""
    return seam_decibels((read(each.spoken.wav)[0], each.spoken.edges) for each in main)


def _faults_of(each: ScoredUtterance) -> list[str]:
    return faults(each.row, stopped=each.spoken.stopped)


def _rate(rows: Sequence[Row], recognizer: str) -> float | None:
    rate = corpus_wer(rows, recognizer)
    return None if rate is None else 100 * rate


def _percent(count: int, total: int) -> float | None:
    return 100 * count / total if total else None
