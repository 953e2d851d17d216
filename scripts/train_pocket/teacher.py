"""One process of the teacher: synthesizes its share of the plan into audio shards, within a time limit."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from scripts.train_pocket.audio_shards import ShardWriter, utterance_ids
from scripts.train_pocket.speakers import Speaker, VoiceBank, read_speakers
from scripts.train_pocket.teacher_audio import RATE, InvalidSpeech, Inventory, finish
from scripts.train_pocket.teacher_model import Speech, Teacher, TeacherInput
from scripts.train_pocket.utterances import PlannedUtterance, read_plan
from scripts.train_pocket.voice_change import change_voice, teacher_pitch, teacher_speed

SORT_WINDOW = 512
"""Number of utterances that are batched by length."""


class TeacherWorker:
    """Synthesizes utterances and counts the results."""

    def __init__(self, teacher: Teacher, bank: VoiceBank, speakers: dict[str, Speaker], writer: ShardWriter) -> None:
        self._teacher, self._bank, self._speakers, self._writer = teacher, bank, speakers, writer
        self._inventory = Inventory(teacher.vocabulary)
        self._began = time.monotonic()
        self._samples = self._accepted = self._rejected = 0

    def run(self, utterances: Iterator[PlannedUtterance], deadline: float) -> None:
        """Synthesize ``utterances`` until all are done or ``deadline`` (of time.monotonic) has passed."""
        while window := list(islice(utterances, SORT_WINDOW)):
            inputs = [self._input(utterance) for utterance in window]
            for indices, speeches in self._teacher.synthesize(inputs):
                for index, speech in zip(indices, speeches, strict=True):
                    self._save(window[index], inputs[index].symbols, speech)
                if time.monotonic() > deadline:
                    break
            if time.monotonic() > deadline:
                break
        self._writer.flush()
        self._report()

    def _input(self, utterance: PlannedUtterance) -> TeacherInput:
        symbols = [self._teacher.vocabulary[symbol] for symbol in utterance.phonemes]
        speaker = self._speakers[utterance.speaker]
        return TeacherInput(
            symbols,
            self._bank.style(speaker, len(symbols)),
            teacher_speed(speaker, utterance.speed),
            teacher_pitch(speaker),
            speaker.pitch_range,
        )

    def _save(self, utterance: PlannedUtterance, symbols: list[int], speech: Speech) -> None:
        try:
            changed = change_voice(speech, self._speakers[utterance.speaker])
            clip = finish(changed, symbols, self._inventory, np.random.default_rng(utterance.id))
        except InvalidSpeech as error:
            self._rejected += 1
            print(f"rejected utterance={utterance.id}: {error}", flush=True)
            return
        self._accepted += 1
        self._samples += len(clip.samples)
        if self._writer.add(utterance.id, clip):
            self._report()

    def _report(self) -> None:
        wall, seconds = time.monotonic() - self._began, self._samples / RATE
        print(
            f"teacher rank={self._writer.rank} wall_s={wall:.1f} utterances={self._accepted} rejected={self._rejected} "
            f"audio_s={seconds:.1f} real_time={seconds / wall:.1f}",
            flush=True,
        )


def remaining_utterances(
    plan: Path, first: int, count: int | None, rank: int, world: int, done: set[int]
) -> Iterator[PlannedUtterance]:
    """Return the utterances of ``rank`` with phonemes that are not in ``done``, in the order of the plan."""
    return (
        utterance
        for utterance in read_plan(plan, first, count)
        if utterance.phonemes and utterance.id % world == rank and utterance.id not in done
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that this module and ``teacher_run`` share."""
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--speakers", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True, help="w*.safetensors, voices_*.npz, vocab.json")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--first", type=int, default=0, help="first line of the plan")
    parser.add_argument("--count", type=int, help="number of lines; default all")
    parser.add_argument("--minutes", type=float, default=1e6, help="time limit, including startup")
    parser.add_argument("--shard-minutes", type=float, default=3.0, help="minutes of audio per shard")


def main() -> None:
    """Parse the arguments and run the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--world", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    deadline = time.monotonic() + options.minutes * 60
    torch.set_num_threads(1)
    torch.manual_seed(options.rank)
    torch.backends.cuda.matmul.allow_tf32 = True
    writer = ShardWriter(options.out, options.rank, int(options.shard_minutes * 60 * RATE))
    utterances = remaining_utterances(
        options.plan, options.first, options.count, options.rank, options.world, utterance_ids(options.out)
    )
    teacher, bank = Teacher(options.weights, options.device), VoiceBank(options.weights)
    TeacherWorker(teacher, bank, read_speakers(options.speakers), writer).run(utterances, deadline)


if __name__ == "__main__":
    main()
