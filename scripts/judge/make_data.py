"""Writes ``data/``: the teacher's recordings that a checkpoint is compared with. Needs the teacher and hibari-tts.

``python -m scripts.judge.make_data --teacher FOLDER``. FOLDER has vocab.json, w*.safetensors and voices_*.npz.
"""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path

import numpy as np
import soundfile
import torch

from scripts.judge.clips import INDEX
from scripts.judge.paths import DATA
from scripts.train_pocket import config
from scripts.train_pocket.phonemes import Phonemizer
from scripts.train_pocket.speakers import Speaker, VoiceBank
from scripts.train_pocket.teacher_audio import RATE, Inventory, finish
from scripts.train_pocket.teacher_model import Teacher, TeacherInput
from scripts.train_pocket.voices import speakers

_NAMED_CLIPS, _UNSEEN = 3, 20
_OPUS_COMPRESSION = 0.75
"""On libsndfile's scale from 0 to 1; about 50 kbit/s."""


class _ClipWriter:
    def __init__(self, folder: Path) -> None:
        self._teacher, self._bank = Teacher(folder, "cpu"), VoiceBank(folder)
        self._inventory = Inventory(self._teacher.vocabulary)
        self._phonemes = Phonemizer(folder / "vocab.json")

    def __call__(self, name: str, speaker: Speaker, text: str) -> None:
        phonemes = self._phonemes(text, speaker.accent)
        if phonemes is None:
            raise ValueError(f"the teacher has no phonemes for {text!r}")
        symbols = [self._teacher.vocabulary[symbol] for symbol in phonemes]
        item = TeacherInput(symbols, self._bank.style(speaker, len(symbols)), 1.0)
        ((_, (speech,)),) = self._teacher.synthesize([item])
        clip = finish(speech, symbols, self._inventory, np.random.default_rng(0))
        samples = clip.samples.astype(np.float32) / 2**15
        soundfile.write(DATA / name, samples, RATE, "OPUS", format="OGG", compression_level=_OPUS_COMPRESSION)


def main() -> None:
    """Write the clips and their index."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--teacher", type=Path, required=True)
    torch.manual_seed(0)
    write_clip = _ClipWriter(parser.parse_args().teacher)
    pocket = config.load()
    all_speakers = speakers(pocket.voices, pocket.seed)
    named = [name for name, speaker in all_speakers.items() if speaker.kind == "named" for _ in range(_NAMED_CLIPS)]
    unseen = islice((name for name, speaker in all_speakers.items() if speaker.kind == "unseen"), _UNSEEN)
    sentences = (DATA / "sentences.txt").read_text(encoding="utf-8").splitlines()
    index = []
    for number, (name, text) in enumerate(zip([*named, *unseen], sentences, strict=True)):
        file = f"{number:02}-{name}.ogg"
        write_clip(file, all_speakers[name], text)
        index.append(f"{file}\t{name}\t{text}\n")
        print(file, flush=True)
    INDEX.write_text("".join(index), encoding="utf-8")


if __name__ == "__main__":
    main()
