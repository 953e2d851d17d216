"""Replaces named voices by blends of the teacher's voices, without training. ``--help`` lists the options.

The voices and their weights are ``voices.rows`` of pocket.yaml. A voice's new embedding row is the weighted mean of
x-vectors of the teacher's recordings. A talker that was trained on x-vectors speaks it like a row that it learned.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import soundfile
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

from engine.checkpoint.folder import open_checkpoint
from engine.client.client import EngineClient
from engine.config import EngineConfig
from engine.protocol.request import SAMPLE_RATE
from scripts.train_pocket.assemble import save_tensors, write_sums
from scripts.train_pocket.config import DEFAULT, load
from scripts.train_pocket.phonemes import Phonemizer
from scripts.train_pocket.speakers import Speaker, VoiceBank
from scripts.train_pocket.teacher_audio import Inventory, finish
from scripts.train_pocket.teacher_model import Teacher, TeacherInput
from scripts.train_pocket.utterances import Accent

_SENTENCES = (
    "The teacher wrote three long words on the board and asked us to say them.",
    "Please bring a warm jacket, a map and some water for the journey.",
    "Why should anybody choose the slower road over the hills at night?",
)
_ROWS = "talker.model.codec_embedding.weight"
Vectors = dict[str, NDArray[np.float32]]


def main() -> None:
    """Set the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True, help="the checkpoint folder, which is changed")
    parser.add_argument("--teacher", type=Path, required=True, help="folder with the teacher's weights")
    parser.add_argument("--recordings", type=Path, required=True, help="folder for recordings; existing ones are used")
    parser.add_argument("--config", type=Path, default=DEFAULT)
    args = parser.parse_args()
    blends = load(args.config).voices.rows
    voices = sorted({voice for blend in blends.values() for voice in blend})
    args.recordings.mkdir(parents=True, exist_ok=True)
    record(args.teacher, voices, args.recordings)
    vectors = asyncio.run(x_vectors(args.checkpoint, voices, args.recordings))
    set_rows(args.checkpoint, {name: blended(blend, vectors) for name, blend in blends.items()})


def record(teacher_folder: Path, voices: list[str], out: Path) -> None:
    """Let the teacher's voices say the sentences that are not in ``out`` yet."""
    missing = [
        (voice, number)
        for voice in voices
        for number in range(len(_SENTENCES))
        if not _file(out, voice, number).exists()
    ]
    if not missing:
        return
    teacher, bank = Teacher(teacher_folder, "cpu"), VoiceBank(teacher_folder)
    inventory, phonemizer = Inventory(teacher.vocabulary), Phonemizer(teacher_folder / "vocab.json")
    torch.manual_seed(0)
    for voice, number in missing:
        accent: Accent = "british" if voice.startswith("b") else "american"
        phonemes = phonemizer(_SENTENCES[number], accent)
        if phonemes is None:
            raise ValueError(f"the teacher has no phonemes for {_SENTENCES[number]!r}")
        symbols = [teacher.vocabulary[symbol] for symbol in phonemes]
        style = bank.style(Speaker({voice: 1.0}, accent, "mixed"), len(symbols))
        ((_, (speech,)),) = teacher.synthesize([TeacherInput(symbols, style, 1.0)])
        clip = finish(speech, symbols, inventory, np.random.default_rng(0))
        soundfile.write(_file(out, voice, number), clip.samples, SAMPLE_RATE)


async def x_vectors(checkpoint: Path, voices: list[str], recordings: Path) -> Vectors:
    """Return the mean x-vector of each voice's recordings, from the checkpoint's speaker encoder."""
    engine = EngineClient(EngineConfig(model=str(checkpoint), device="cpu"))
    await engine.start()
    try:
        await engine.wait_ready()
        vectors: Vectors = {}
        for voice in voices:
            of_voice = []
            for number in range(len(_SENTENCES)):
                samples, _ = soundfile.read(_file(recordings, voice, number), dtype="float32")
                encoded = await engine.encode_reference(samples, SAMPLE_RATE, codes=False, transcript=None)
                of_voice.append(encoded.embedding)
            vectors[voice] = np.mean(of_voice, axis=0)
        return vectors
    finally:
        await engine.close()


def blended(blend: Mapping[str, float], vectors: Vectors) -> NDArray[np.float32]:
    """Return the weighted mean of the voices' vectors."""
    rows = np.stack([vectors[voice] for voice in blend])
    return np.average(rows, axis=0, weights=list(blend.values())).astype(np.float32)


def set_rows(checkpoint: Path, rows: Vectors) -> None:
    """Write the embedding rows of the named voices, and SHA256SUMS. Raises KeyError for an unknown voice."""
    ids = open_checkpoint(str(checkpoint)).model.talker.speakers
    tensors = load_file(checkpoint / "model.safetensors")
    for name, row in rows.items():
        tensors[_ROWS][ids[name]] = torch.from_numpy(row).to(tensors[_ROWS].dtype)
    save_tensors(checkpoint / "model.safetensors", tensors)
    write_sums(checkpoint)


def _file(folder: Path, voice: str, number: int) -> Path:
    return folder / f"{voice}-{number}.wav"


if __name__ == "__main__":
    main()
