"""Prepares recordings of people for training: python3 -m scripts.train_pocket.prepare_recordings --help.

A folder has one subfolder per speaker. Each recording is split at pauses into pieces of a few seconds, which Moonshine
transcribes (``make judge`` installs it). ``speed_perturbation.py`` adds them to the plan. The pieces of a tenth of
the speakers are held out, to measure the codec on them.
"""

from __future__ import annotations

import argparse
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import soundfile

from engine.cloning.resampling import resample
from engine.protocol.request import SAMPLE_RATE
from scripts.judge.pieces import pauses
from scripts.judge.recordings import Recording, audio_files, run_judges, write_list
from scripts.judge.sound import Samples, loudness_db, read, trim_silence
from scripts.train_pocket.phonemes import Phonemizer
from scripts.train_pocket.recorded_phonemes import PhonemeTimes
from scripts.train_pocket.recorded_pieces import RecordedPiece, write_pieces
from scripts.train_pocket.text_cleaning import HeldOutSentences
from scripts.train_pocket.texts import as_spoken, judge_texts

_WINDOW_S = 0.02
_MIN_PAUSE_S = 0.16
_PIECE_S = (2.5, 14.0)
"""A recording is only split where both parts have at least the first length. Longer pieces than the second one, for
instance of noisy recordings, in which no pauses are found, are not used."""
_HELD_OUT = 10
"""One of this many speakers is held out."""
_CHARACTERS_PER_SECOND = (6.0, 26.0)
"""A transcript with fewer or more characters does not fit its recording."""
_TEXT = re.compile(r"[A-Za-z ,.;:!?'’\"“”-]+")
"""A transcript with other characters is not used."""


def split(samples: Samples, rate: int) -> list[Samples]:
    """Split a recording [n] in the middle of its pauses. Silence at the ends of a piece is cut to 0.1 s."""
    shortest, bounds = round(_PIECE_S[0] * rate), [0]
    for pause in pauses(samples, rate, window_s=_WINDOW_S, shortest_s=_MIN_PAUSE_S):
        if pause - bounds[-1] >= shortest and len(samples) - pause >= shortest:
            bounds.append(pause)
    parts = [trim_silence(samples[begin:end], rate) for begin, end in pairwise([*bounds, len(samples)])]
    return [part for part in parts if len(part) <= _PIECE_S[1] * rate and loudness_db(part) > -np.inf]


def cut(recordings: Path, out: Path) -> Iterator[tuple[Path, str]]:
    """Write the pieces of all recordings as FLAC. Yield file and speaker."""
    out.mkdir(parents=True, exist_ok=True)
    number = 0
    for recording in audio_files(recordings):
        samples, rate = read(recording)
        for part in split(resample(samples, rate, SAMPLE_RATE), SAMPLE_RATE):
            file = out / f"{number:05}.flac"
            soundfile.write(file, part, SAMPLE_RATE)
            yield file, recording.relative_to(recordings).parts[0]
            number += 1


def is_plausible(text: str, seconds: float) -> bool:
    """Return whether a recording of this length can say the text, and the text has only words and punctuation."""
    slowest, fastest = _CHARACTERS_PER_SECOND
    return bool(_TEXT.fullmatch(text)) and slowest * seconds <= len(text) <= fastest * seconds


def transcripts(files: Sequence[Path]) -> Iterator[str | None]:
    """Yield what is said in each file, as the text front end writes it; None if that is not plausible."""
    excluded = HeldOutSentences(judge_texts())
    for file, row in zip(files, run_judges([Recording(file, "") for file in files], "moonshine"), strict=True):
        text = as_spoken(row["moonshine"]["heard"].strip())
        usable = is_plausible(text, soundfile.info(file).duration) and not excluded.overlaps(text)
        yield text if usable else None


def divide(pieces: Sequence[RecordedPiece]) -> tuple[list[RecordedPiece], list[RecordedPiece]]:
    """Return the pieces to train on, and those of held-out speakers.

    A speaker to train on has at least two pieces, so that one can be the reference of another.
    """
    counts = Counter(piece.speaker for piece in pieces)
    held_out = [piece for piece in pieces if _is_held_out(piece.speaker)]
    return [each for each in pieces if counts[each.speaker] > 1 and not _is_held_out(each.speaker)], held_out


def _is_held_out(speaker: str) -> bool:
    return zlib.crc32(speaker.encode()) % _HELD_OUT == 0


def main() -> None:
    """Write the pieces and the two lists."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=Path, required=True, help="folder with a subfolder for each speaker")
    parser.add_argument("--vocabulary", type=Path, required=True, help="the teacher's vocab.json")
    parser.add_argument("--out", type=Path, required=True, help="folder for the pieces, pieces.jsonl and held_out.tsv")
    args = parser.parse_args()
    written = list(cut(args.recordings, args.out))
    phonemizer = Phonemizer(args.vocabulary)
    phoneme_times = PhonemeTimes(args.vocabulary, phonemizer)
    heard = transcripts([file for file, _ in written])
    pieces = [
        RecordedPiece(file.name, speaker, text, phonemizer.words(text), phoneme_times(read(file)[0], text))
        for (file, speaker), text in zip(written, heard, strict=True)
        if text is not None
    ]
    used, held_out = divide(pieces)
    write_pieces(args.out, used)
    write_list(args.out / "held_out.tsv", [Recording(args.out / piece.file, piece.text) for piece in held_out])
    speakers = len({piece.speaker for piece in used})
    print(f"{len(used)} of {len(written)} pieces, {speakers} speakers; {len(held_out)} pieces of others are held out")


if __name__ == "__main__":
    main()
