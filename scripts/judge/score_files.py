"""Scores recordings: ``python -m scripts.judge.score_files LIST.tsv``.

Each line of the list is WAV, TEXT and, to compare the speaker, REFERENCE.wav, separated by tabs. Prints a JSON object
for each recording, then a summary. ``--judges moonshine,mos`` runs only those judges.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from scripts.judge.ending import ending_lost
from scripts.judge.figures import RECOGNIZERS, corpus_wer, mean
from scripts.judge.judging import JUDGES, Judgments, judge_files
from scripts.judge.recordings import Recording, Row, read_list
from scripts.judge.sound import loudness_db, onset_s, read, speech_s
from scripts.judge.words import normalize, word_errors

_MEANS = ("mos", "similarity", "seconds", "chars_per_second", "loudness_db")


def main() -> None:
    """Print the scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("list", type=Path)
    parser.add_argument("--judges", default=",".join(JUDGES))
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    scores = score(read_list(args.list), args.judges.split(","), processes=args.processes)
    for row in scores:
        print(json.dumps(row, ensure_ascii=False))
    print(json.dumps({"summary": summary(scores)}))


def score(recordings: list[Recording], judges: list[Any], *, processes: int = 2) -> list[Row]:
    """Return one row for each recording."""
    judgments = judge_files((each.wav for each in recordings), judges, processes=processes)
    references = [each.reference for each in recordings if each.reference is not None]
    voices = judge_files(references, ["speaker"], processes=processes) if "speaker" in judges and references else {}
    return [
        _row(each, judgments[each.wav], voices.get(each.reference) if each.reference else None) for each in recordings
    ]


def summary(rows: list[Row]) -> Row:
    """Return corpus word error rates (all errors divided by all words), and means of the other scores."""
    rates = {f"{name}_wer": corpus_wer(rows, name) for name in RECOGNIZERS}
    means = {name: mean(rows, name) for name in _MEANS}
    rounded = {name: round(value, 4) for name, value in (rates | means).items() if value is not None}
    return {"recordings": len(rows), **rounded}


def _row(recording: Recording, judgments: Judgments, reference: Judgments | None) -> Row:
    samples, rate = read(recording.wav)
    speech_seconds = speech_s(samples, rate)
    row: Row = {
        "wav": str(recording.wav),
        "text": recording.text,
        "seconds": round(len(samples) / rate, 3),
        "onset_s": round(onset_s(samples, rate), 3),
        "speech_s": round(speech_seconds, 3),
        "chars_per_second": round(len(recording.text) / speech_seconds, 2) if speech_seconds else None,
        "loudness_db": round(loudness_db(samples), 1),
    }
    for name in RECOGNIZERS:
        if name in judgments:
            row[name] = _word_row(recording.text, judgments[name])
    if "mos" in judgments:
        row["mos"] = round(judgments["mos"], 3)
    if reference is not None and "speaker" in judgments:
        row["similarity"] = round(float(np.dot(judgments["speaker"], reference["speaker"])), 4)
    return row


def _word_row(text: str, recognized: str) -> Row:
    word_counts = word_errors(text, recognized)
    lost = ending_lost(normalize(text).split(), normalize(recognized).split())
    return {"heard": recognized, "errors": word_counts.errors, "words": word_counts.words, "ending_lost": lost}


if __name__ == "__main__":
    main()
