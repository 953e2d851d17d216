"""Speaks texts as people type them through a server, and counts faulty speech in responses with status 200.

``python -m scripts.judge.served``. It needs the environment of ``make judge``. The texts are those of ``data/classes``
and those with which the text front end is tested, some 2,000 in all. A server of its own answers each as one WAV file.
Moonshine hears all of them, and Whisper those that seem faulty then.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from scripts.judge.class_items import read_items
from scripts.judge.ending import ending_lost
from scripts.judge.exam import MAIN_VOICES
from scripts.judge.expected import RUNAWAY, TRUNCATED, expected_s, faults
from scripts.judge.figures import RECOGNIZERS, corpus_wer
from scripts.judge.fingerprint import fingerprint
from scripts.judge.paths import CACHE, ROOT
from scripts.judge.recordings import Recording, Row, run_judges
from scripts.judge.serving import ServedCheckpoint
from scripts.judge.spelling import join_letters
from server.text.frontend import spoken
from tests.unit.text.readings import CLASSES, items

SILENT = "silent"
_AT_ONCE = 4
_SILENT_BELOW_S = 0.1
"""Seconds of speech."""
_RUNAWAY = 3.0
"""Multiple of the expected duration that only a runaway has, whatever was heard."""


@dataclass(frozen=True)
class Answer:
    """The answer to a text.

    error: the code of an error response. recording: None with an error. pauses: seconds of silence that the text asks
    for.
    """

    typed: str
    error: str | None
    recording: Recording | None
    pauses: float = 0.0


def main() -> None:
    """Print the counts, and every faulty utterance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "models" / "pocket", help="a checkpoint folder")
    parser.add_argument("--texts", type=int, help="speak only the first texts")
    args = parser.parse_args()
    answers = speak(args.checkpoint, mixed_texts()[: args.texts])
    print(report(answers, judge(answers)))


def mixed_texts() -> list[str]:
    """Return all texts as they are typed."""
    judged = [item.typed for group in read_items().values() for item in group]
    return list(dict.fromkeys(judged + [item.typed for name in CLASSES for item in items(name)]))


def speak(checkpoint: Path, texts: Sequence[str]) -> list[Answer]:
    """Return the answers of a server of its own. The main voices speak in turn."""
    out = CACHE / "spoken" / "served" / fingerprint(checkpoint)
    out.mkdir(parents=True, exist_ok=True)
    with ServedCheckpoint(checkpoint, out / "server.log") as server, ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda number: _answer(server, texts[number], number, out), range(len(texts))))


def _answer(server: ServedCheckpoint, text: str, number: int, out: Path) -> Answer:
    voice = MAIN_VOICES[number % len(MAIN_VOICES)]
    body = {"input": text, "voice": voice, "seed": number, "response_format": "wav", "stream": False}
    status, content = server.speech(body)
    if number % 100 == 99:
        print(f"spoke {number + 1}", file=sys.stderr, flush=True)
    if status != HTTPStatus.OK:
        return Answer(text, json.loads(content)["error"]["code"], None)
    wav = out / f"{number}.wav"
    wav.write_bytes(content)
    expected = spoken(text, "english")
    return Answer(text, None, Recording(wav, expected.text), sum(pause.seconds for pause in expected.pauses))


def judge(answers: Sequence[Answer]) -> list[Row]:
    """Return the scores of all recordings, with ``seconds`` without the pauses that the texts ask for.

    Whisper's are added to those of utterances that seem faulty with Moonshine's alone.
    """
    recorded = [(each.recording, each.pauses) for each in answers if each.recording is not None]
    rows = run_judges([recording for recording, _ in recorded], "moonshine")
    for row, (_, pauses) in zip(rows, recorded, strict=True):
        row["seconds"] -= pauses
    doubtful = [index for index, row in enumerate(rows) if fault_of(row) is not None]
    again = run_judges([recorded[index][0] for index in doubtful], "whisper")
    for index, row in zip(doubtful, again, strict=True):
        rows[index]["whisper"] = row["whisper"]
    return rows


def fault_of(row: Row) -> str | None:
    """Return SILENT, RUNAWAY or TRUNCATED, or None.

    RUNAWAY: more than three times as long as expected, or twice as long and every recognizer heard more words than the
    text has. TRUNCATED: every recognizer heard fewer words, and none of the last ones. A pause between short sentences,
    or a word that is misheard, is neither.
    """
    if row["speech_s"] < _SILENT_BELOW_S:
        return SILENT
    if row["seconds"] > _RUNAWAY * expected_s(row["text"]):
        return RUNAWAY
    text = _words(row["text"])
    heard = [_words(spoken(row[name]["heard"], "english").text) for name in RECOGNIZERS if name in row]
    if RUNAWAY in faults(row, stopped=True) and all(len(words) > len(text) for words in heard):
        return RUNAWAY
    truncated = all(len(words) < len(text) and ending_lost(text, words) for words in heard)
    return TRUNCATED if truncated else None


def _words(text: str) -> list[str]:
    """Return the words of ``text``. Letters that are spelled out are one word: recognizers write "utr" for U T R."""
    return join_letters(" ".join(re.findall(r"[\w']+", text.lower()))).split()


def report(answers: Sequence[Answer], rows: Sequence[Row]) -> str:
    """Return the counts, then one line for each error and each faulty utterance."""
    errors = [each for each in answers if each.error is not None]
    faulty = [(fault, row) for row in rows if (fault := fault_of(row)) is not None]
    counts = Counter(fault for fault, _ in faulty)
    lines = [
        f"{len(answers)} texts: {len(rows)} with status 200, {len(errors)} errors",
        f"of those with status 200: {', '.join(f'{counts[name]} {name}' for name in (RUNAWAY, SILENT, TRUNCATED))}",
        f"word error rate, Moonshine: {100 * (corpus_wer(rows, 'moonshine') or 0):.1f} %",
        *(f"error {each.error}: {each.typed!r}" for each in errors),
    ]
    for fault, row in faulty:
        lines.append(f"{fault}, {row['seconds']:.1f} s: {row['text']!r} heard as {row['moonshine']['heard']!r}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
