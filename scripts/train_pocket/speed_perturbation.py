"""Adds recordings of people to the training data, with speed perturbation.

python3 -m scripts.train_pocket.speed_perturbation --help

Played faster or slower, a voice has other formants, another pitch and another rhythm, so it counts as another speaker
(Ko et al., "Audio augmentation for speech recognition", Interspeech 2015).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import soundfile
from numpy.typing import NDArray

from engine.protocol.request import SAMPLE_RATE
from scripts.judge.sound import Samples, loudness_db
from scripts.train_pocket.audio_shards import FRAME_SAMPLES, LABELS, Clip, ShardWriter
from scripts.train_pocket.recorded_pieces import RecordedPiece, SpokenPhoneme, read_pieces
from scripts.train_pocket.speakers import Speaker
from scripts.train_pocket.teacher_model import Speech
from scripts.train_pocket.utterances import FIRST_RECORDED, PlannedUtterance, read_plan, write_plan
from scripts.train_pocket.voice_change import BANDS, change_voice

SPEEDS = (0.8, 0.83, 0.86, 0.89, 0.92, 0.95, 1.0, 1.04, 1.08, 1.12, 1.16, 1.2, 1.25)
_SPEED_IDS = 100_000
"""Ids of a speed. The speeds of a piece have ids with the same last digits, so that all or none are held out."""
_RANK = 900
"""Rank of the first shards. Those of the teacher's processes are smaller."""
_SHARD_SAMPLES = 180 * SAMPLE_RATE
_GAIN_DB = 4.0
"""Maximum gain of a band of a changed voice's random equalizer."""
_LEVEL_DB = (-30.0, -18.0)
"""Range of the random loudness in dB of full scale. The teacher's is about -22."""


def at_speed(samples: Samples, speed: float, speaker: str) -> Samples:
    """Return samples [n] played at ``speed``, about n / speed; at other speeds than 1 with the speaker's equalizer."""
    random = Random(speaker)
    equalizer = tuple(random.uniform(-_GAIN_DB, _GAIN_DB) for _ in BANDS) if speed != 1.0 else ()
    voice = Speaker({}, "american", "varied", tract=speed, equalizer=equalizer)
    return change_voice(Speech(samples, np.empty(0)), voice).samples


def at_level(samples: Samples, level_db: float) -> Samples:
    """Return samples that contain speech with this loudness, or less if they would be clipped."""
    gain = 10 ** ((level_db - loudness_db(samples)) / 20)
    return samples * np.float32(min(gain, 0.99 / np.abs(samples).max()))


def clip(samples: Samples, phonemes: list[SpokenPhoneme], speed: float) -> Clip:
    """Return a recording for a shard: 16-bit samples, padded to complete frames.

    speed: at which ``samples`` are played. phonemes: with their times at speed 1.
    """
    frames = -(-len(samples) // FRAME_SAMPLES)
    padded = np.pad(samples, (0, frames * FRAME_SAMPLES - len(samples)))
    return Clip((padded * 32767).round().astype(np.int16), labels(phonemes, frames, speed))


def labels(phonemes: list[SpokenPhoneme], frames: int, speed: float) -> NDArray[np.int16]:
    """Return labels [frames, 4] of a recording played at ``speed``: the phoneme in the middle of a quarter, 0 for none.

    phonemes: with their times at speed 1.
    """
    quarter = FRAME_SAMPLES / LABELS / SAMPLE_RATE
    centers = (np.arange(frames * LABELS) + 0.5) * quarter * speed
    found = np.zeros(frames * LABELS, np.int16)
    for phoneme in phonemes:
        found[(centers >= phoneme.start) & (centers < phoneme.end)] = phoneme.symbol
    return found.reshape(frames, LABELS)


def planned(pieces: Sequence[RecordedPiece]) -> Iterator[tuple[PlannedUtterance, RecordedPiece, float]]:
    """Yield an utterance, its piece and its speed, for each speed of each piece."""
    for first, speed in enumerate(SPEEDS):
        for number, piece in enumerate(pieces, start=FIRST_RECORDED + first * _SPEED_IDS):
            speaker = f"{piece.speaker}-{round(100 * speed)}"
            yield PlannedUtterance(number, piece.text, "", speaker, 1.0, "american", piece.words), piece, speed


def write_shards(folder: Path, out: Path, ranks: int, rank: int) -> float:
    """Write the shards of one of ``ranks`` processes. Return their hours."""
    writer, samples = ShardWriter(out, _RANK + rank, _SHARD_SAMPLES), 0
    for number, (utterance, piece, speed) in enumerate(planned(read_pieces(folder))):
        if number % ranks == rank:
            recording, _ = soundfile.read(folder / piece.file, dtype="float32")
            level = Random(utterance.id).uniform(*_LEVEL_DB)
            changed = at_level(at_speed(recording, speed, utterance.speaker), level)
            spoken = clip(changed, piece.phonemes, speed)
            writer.add(utterance.id, spoken)
            samples += len(spoken.samples)
    writer.flush()
    return samples / SAMPLE_RATE / 3600


def main() -> None:
    """Write the utterances at the end of plan.jsonl.gz, and their shards. Those of an earlier run are replaced."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pieces", type=Path, required=True, help="folder that prepare_recordings.py wrote")
    parser.add_argument("--data", type=Path, default=Path(".pocket"), help="folder with plan.jsonl.gz")
    parser.add_argument("--out", type=Path, required=True, help="folder for the shards: that of the teacher's audio")
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    for earlier in args.out.glob(f"shard-{_RANK // 100}??-*.npz"):
        earlier.unlink()
    plan = args.data / "plan.jsonl.gz"
    utterances = [utterance for utterance, _, _ in planned(read_pieces(args.pieces))]
    write_plan(plan, [*(each for each in read_plan(plan) if each.id < FIRST_RECORDED), *utterances])
    with ProcessPoolExecutor(args.processes) as executor:
        write = partial(write_shards, args.pieces, args.out, args.processes)
        hours = sum(executor.map(write, range(args.processes)))
    print(f"{len(utterances)} utterances of {len({each.speaker for each in utterances})} speakers, {hours:.2f} h")


if __name__ == "__main__":
    main()
