"""Scores of recordings: ``python -m scripts.judge.score_files LIST.tsv``.

A line is WAV, TEXT and, if its speaker should be compared, REFERENCE.wav, with tabs between. Prints a JSON object
a line and a summary last. ``--judges moonshine,mos`` asks only those.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from scripts.judge.ending import ending_lost
from scripts.judge.figures import RECOGNISERS, corpus_wer, mean
from scripts.judge.hearing import JUDGES, Heard, hear
from scripts.judge.recordings import Recording, Row, read_list
from scripts.judge.sound import loudness_db, onset_s, read, speech_s
from scripts.judge.words import normal, word_errors

_MEANS = ("mos", "similarity", "seconds", "chars_per_second", "loudness_db")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("list", type=Path)
    parser.add_argument("--judges", default=",".join(JUDGES))
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    scores = score(read_list(asked.list), asked.judges.split(","), processes=asked.processes)
    for row in scores:
        print(json.dumps(row, ensure_ascii=False))
    print(json.dumps({"summary": summary(scores)}))


def score(recordings: list[Recording], judges: list[Any], *, processes: int = 2) -> list[Row]:
    """One row a recording."""
    heard = hear((each.wav for each in recordings), judges, processes=processes)
    references = [each.reference for each in recordings if each.reference is not None]
    voices = hear(references, ["speaker"], processes=processes) if "speaker" in judges and references else {}
    return [_row(each, heard[each.wav], voices.get(each.reference) if each.reference else None) for each in recordings]


def summary(rows: list[Row]) -> Row:
    """Corpus word error rates (all errors over all words), means of the rest."""
    rates = {f"{name}_wer": corpus_wer(rows, name) for name in RECOGNISERS}
    means = {name: mean(rows, name) for name in _MEANS}
    found = {name: round(value, 4) for name, value in (rates | means).items() if value is not None}
    return {"recordings": len(rows), **found}


def _row(recording: Recording, heard: Heard, reference: Heard | None) -> Row:
    samples, rate = read(recording.wav)
    spoken = speech_s(samples, rate)
    row: Row = {
        "wav": str(recording.wav),
        "text": recording.text,
        "seconds": round(len(samples) / rate, 3),
        "onset_s": round(onset_s(samples, rate), 3),
        "speech_s": round(spoken, 3),
        "chars_per_second": round(len(recording.text) / spoken, 2) if spoken else None,
        "loudness_db": round(loudness_db(samples), 1),
    }
    for name in RECOGNISERS:
        if name in heard:
            row[name] = _words(recording.text, heard[name])
    if "mos" in heard:
        row["mos"] = round(heard["mos"], 3)
    if reference is not None and "speaker" in heard:
        row["similarity"] = round(float(np.dot(heard["speaker"], reference["speaker"])), 4)
    return row


def _words(text: str, heard: str) -> Row:
    found = word_errors(text, heard)
    lost = ending_lost(normal(text).split(), normal(heard).split())
    return {"heard": heard, "errors": found.errors, "words": found.words, "ending_lost": lost}


if __name__ == "__main__":
    main()
