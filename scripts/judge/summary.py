"""From scored recordings and measured speed to the table's figures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from scripts.judge.exam import MAIN_VOICES
from scripts.judge.expected import LATE, RUNAWAY, TRUNCATED, faults
from scripts.judge.figures import RECOGNISERS, corpus_wer, mean
from scripts.judge.parts import Parts, Scored
from scripts.judge.recordings import Row
from scripts.judge.seams import seam_decibels
from scripts.judge.sound import read
from scripts.judge.speed import Speed
from scripts.judge.table import Figure

_Score = partial(Figure, more_is_better=True)
_FAULTS_OF = 300
_MOST_FAULTS = 3


def speech_figures(parts: Parts) -> list[Figure]:
    """Of the main voices, the codec and the clones."""
    main = [each.row for each in parts.main]
    return [
        *(Figure(f"WER, {name.title()}", _rate(main, name), "%", reach=8, aim=4) for name in RECOGNISERS),
        *_codec(parts),
        *_voices(parts),
        *_clones("x-vector", parts.by_vector),
        *_clones("in context", parts.in_context),
        *_faults(parts.main),
        Figure("characters a second", mean(main, "chars_per_second")),
        Figure("the same, teacher", mean(parts.original, "chars_per_second")),
        Figure("loudness, dB", mean(main, "loudness_db")),
        Figure("spectrum where chunks meet, dB off", _seams(parts.main), reach=1, aim=0.5),
    ]


def speed_figures(speed: Speed) -> list[Figure]:
    """Of the server on two cores."""
    return [
        Figure("real-time factor, one stream", speed.real_time_factor, reach=0.4, aim=0.2),
        Figure("streams held in real time (8 tried)", speed.streams, "count", reach=2, aim=6, more_is_better=True),
        Figure("first audible sample over HTTP, idle", 1000 * speed.first_audible_s, "ms", reach=300, aim=150),
        Figure("make serve until ready", speed.ready_s, "s", reach=8, aim=4),
    ]


def _codec(parts: Parts) -> list[Figure]:
    original, decoded = parts.original, parts.decoded
    return [
        *(
            Figure(f"codec alone, WER, {name.title()}", _rate(decoded, name), "%", reach=5, aim=2.5)
            for name in RECOGNISERS
        ),
        *(Figure(f"  without it, {name.title()}", _rate(original, name), "%") for name in RECOGNISERS),
        _Score("codec alone, Distill-MOS", mean(decoded, "mos"), reach=3.5, aim=4.0),
        Figure("  without it", mean(original, "mos")),
        Figure("codec alone, similarity to the original", mean(decoded, "similarity")),
    ]


def _voices(parts: Parts) -> list[Figure]:
    said: dict[str, list[Row]] = {}
    for each in [*parts.main, *parts.further]:
        said.setdefault(str(each.spoken.utterance.speaker), []).append(each.row)
    named = [row for rows in said.values() for row in rows]
    opinions = [
        _Score(f"Distill-MOS, {voice}", mean(rows, "mos"), reach=3.5, aim=4.0)
        if voice in MAIN_VOICES
        else Figure(f"Distill-MOS, {voice}", mean(rows, "mos"))
        for voice, rows in said.items()
    ]
    likenesses = [Figure(f"  of {voice}", mean(rows, "similarity")) for voice, rows in said.items()]
    all_named = _Score("similarity, named voice to its teacher", mean(named, "similarity"), reach=0.6, aim=0.7)
    return [*opinions, all_named, *likenesses]


def _clones(how: str, clones: Sequence[Scored]) -> list[Figure]:
    rows = [each.row for each in clones]
    return [
        _Score(f"similarity, clone {how} to its reference", mean(rows, "similarity"), reach=0.45, aim=0.6),
        Figure("  WER, Moonshine", _rate(rows, "moonshine"), "%"),
        Figure("  Distill-MOS", mean(rows, "mos")),
        Figure("  gone wrong, per cent", _percent(sum(bool(_of(each)) for each in clones), len(clones)), "%"),
    ]


def _faults(main: Sequence[Scored]) -> list[Figure]:
    """Scaled where fewer utterances were spoken than the bounds are for."""
    found = [_of(each) for each in main]
    scale = len(main) / _FAULTS_OF
    return [
        Figure(f"gone wrong, of {len(main)}", sum(map(bool, found)), "count", reach=_MOST_FAULTS * scale, aim=0),
        *(Figure(f"  {fault}", sum(fault in each for each in found), "count") for fault in (RUNAWAY, TRUNCATED, LATE)),
    ]


def _seams(main: Sequence[Scored]) -> float | None:
    """Read one after the other: the recordings together are large."""
    return seam_decibels((read(each.spoken.wav)[0], each.spoken.edges) for each in main)


def _of(each: Scored) -> list[str]:
    return faults(each.row, stopped=each.spoken.stopped)


def _rate(rows: Sequence[Row], recogniser: str) -> float | None:
    rate = corpus_wer(rows, recogniser)
    return None if rate is None else 100 * rate


def _percent(count: int, total: int) -> float | None:
    return 100 * count / total if total else None
